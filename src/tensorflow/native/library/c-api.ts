/**
 * TensorFlow's C API under its own names, declared as data: `name: [result, arguments]`.
 *
 * The type names are kinds, not C types: every pointer to a TensorFlow object is `ptr`. A test compares each
 * declaration with the C prototype in the headers that come with the library.
 */

/** An address in native memory. */
export type Pointer = bigint;

/** A pointer argument: an address, memory owned by JavaScript, or NULL. */
export type PointerArgument = Pointer | NodeJS.TypedArray | null;

/** TF_Output: the `index`-th output of an operation. */
export interface COutput {
  readonly oper: Pointer;
  readonly index: number;
}

interface Results {
  void: undefined;
  ptr: Pointer;
  int: number;
  i64: number | bigint;
  size: number | bigint;
  str: string;
  out: COutput;
}

interface Arguments {
  ptr: PointerArgument;
  int: number;
  i64: number | bigint;
  size: number | bigint;
  f32: number;
  u8: number;
  str: string | null;
  out: COutput;
}

export type ResultKind = keyof Results;
export type ArgumentKind = keyof Arguments;
export type Declaration = readonly [ResultKind, readonly ArgumentKind[]];

const declare = <const T extends Record<string, Declaration>>(table: T): T => table;

export const DECLARATIONS = declare({
  TF_Version: ['str', []],
  TF_DataTypeSize: ['size', ['int']],

  TF_NewStatus: ['ptr', []],
  TF_DeleteStatus: ['void', ['ptr']],
  TF_GetCode: ['int', ['ptr']],
  TF_Message: ['str', ['ptr']],

  TF_NewBuffer: ['ptr', []],
  TF_NewBufferFromString: ['ptr', ['ptr', 'size']],
  TF_DeleteBuffer: ['void', ['ptr']],

  TF_AllocateTensor: ['ptr', ['int', 'ptr', 'int', 'size']],
  TF_DeleteTensor: ['void', ['ptr']],
  TF_TensorType: ['int', ['ptr']],
  TF_NumDims: ['int', ['ptr']],
  TF_Dim: ['i64', ['ptr', 'int']],
  TF_TensorByteSize: ['size', ['ptr']],
  TF_TensorData: ['ptr', ['ptr']],
  TF_StringCopy: ['void', ['ptr', 'ptr', 'size']],
  TF_StringInit: ['void', ['ptr']],
  TF_StringDealloc: ['void', ['ptr']],

  TF_NewGraph: ['ptr', []],
  TF_DeleteGraph: ['void', ['ptr']],
  TF_NewOperation: ['ptr', ['ptr', 'str', 'str']],
  TF_SetDevice: ['void', ['ptr', 'str']],
  TF_AddInput: ['void', ['ptr', 'out']],
  TF_AddInputList: ['void', ['ptr', 'ptr', 'int']],
  TF_AddControlInput: ['void', ['ptr', 'ptr']],
  TF_ColocateWith: ['void', ['ptr', 'ptr']],
  TF_SetAttrString: ['void', ['ptr', 'str', 'ptr', 'size']],
  TF_SetAttrStringList: ['void', ['ptr', 'str', 'ptr', 'ptr', 'int']],
  TF_SetAttrInt: ['void', ['ptr', 'str', 'i64']],
  TF_SetAttrIntList: ['void', ['ptr', 'str', 'ptr', 'int']],
  TF_SetAttrFloat: ['void', ['ptr', 'str', 'f32']],
  TF_SetAttrFloatList: ['void', ['ptr', 'str', 'ptr', 'int']],
  TF_SetAttrBool: ['void', ['ptr', 'str', 'u8']],
  TF_SetAttrBoolList: ['void', ['ptr', 'str', 'ptr', 'int']],
  TF_SetAttrType: ['void', ['ptr', 'str', 'int']],
  TF_SetAttrTypeList: ['void', ['ptr', 'str', 'ptr', 'int']],
  TF_SetAttrShape: ['void', ['ptr', 'str', 'ptr', 'int']],
  TF_SetAttrShapeList: ['void', ['ptr', 'str', 'ptr', 'ptr', 'int']],
  TF_SetAttrFuncName: ['void', ['ptr', 'str', 'str', 'size']],
  TF_SetAttrTensor: ['void', ['ptr', 'str', 'ptr', 'ptr']],
  TF_SetAttrTensorList: ['void', ['ptr', 'str', 'ptr', 'int', 'ptr']],
  TF_SetAttrValueProto: ['void', ['ptr', 'str', 'ptr', 'size', 'ptr']],
  TF_FinishOperation: ['ptr', ['ptr', 'ptr']],

  TF_OperationName: ['str', ['ptr']],
  TF_OperationOpType: ['str', ['ptr']],
  TF_OperationDevice: ['str', ['ptr']],
  TF_OperationNumOutputs: ['int', ['ptr']],
  TF_OperationOutputType: ['int', ['out']],
  TF_OperationOutputListLength: ['int', ['ptr', 'str', 'ptr']],
  TF_OperationNumInputs: ['int', ['ptr']],
  TF_OperationAllInputs: ['void', ['ptr', 'ptr', 'int']],
  TF_OperationNumControlInputs: ['int', ['ptr']],
  TF_OperationGetControlInputs: ['int', ['ptr', 'ptr', 'int']],
  TF_OperationGetAttrValueProto: ['void', ['ptr', 'str', 'ptr', 'ptr']],
  TF_OperationToNodeDef: ['void', ['ptr', 'ptr', 'ptr']],

  TF_GraphOperationByName: ['ptr', ['ptr', 'str']],
  TF_GraphNextOperation: ['ptr', ['ptr', 'ptr']],
  TF_GraphToGraphDef: ['void', ['ptr', 'ptr', 'ptr']],
  TF_GraphGetOpDef: ['void', ['ptr', 'str', 'ptr', 'ptr']],
  TF_GraphGetTensorNumDims: ['int', ['ptr', 'out', 'ptr']],
  TF_GraphGetTensorShape: ['void', ['ptr', 'out', 'ptr', 'int', 'ptr']],
  TF_GraphSetTensorShape: ['void', ['ptr', 'out', 'ptr', 'int', 'ptr']],

  TF_NewImportGraphDefOptions: ['ptr', []],
  TF_DeleteImportGraphDefOptions: ['void', ['ptr']],
  TF_ImportGraphDefOptionsSetPrefix: ['void', ['ptr', 'str']],
  TF_ImportGraphDefOptionsSetDefaultDevice: ['void', ['ptr', 'str']],
  TF_ImportGraphDefOptionsSetUniquifyNames: ['void', ['ptr', 'u8']],
  TF_ImportGraphDefOptionsSetUniquifyPrefix: ['void', ['ptr', 'u8']],
  TF_ImportGraphDefOptionsAddInputMapping: ['void', ['ptr', 'str', 'int', 'out']],
  TF_ImportGraphDefOptionsAddControlDependency: ['void', ['ptr', 'ptr']],
  TF_ImportGraphDefOptionsAddReturnOutput: ['void', ['ptr', 'str', 'int']],
  TF_ImportGraphDefOptionsAddReturnOperation: ['void', ['ptr', 'str']],
  TF_GraphImportGraphDefWithResults: ['ptr', ['ptr', 'ptr', 'ptr', 'ptr']],
  TF_ImportGraphDefResultsReturnOutputs: ['void', ['ptr', 'ptr', 'ptr']],
  TF_ImportGraphDefResultsReturnOperations: ['void', ['ptr', 'ptr', 'ptr']],
  TF_DeleteImportGraphDefResults: ['void', ['ptr']],

  TF_GraphToFunctionWithControlOutputs: [
    'ptr',
    [
      'ptr',
      'str',
      'u8',
      'int',
      'ptr',
      'int',
      'ptr',
      'int',
      'ptr',
      'ptr',
      'int',
      'ptr',
      'ptr',
      'ptr',
      'str',
      'ptr',
    ],
  ],
  TF_GraphCopyFunction: ['void', ['ptr', 'ptr', 'ptr', 'ptr']],
  TF_GraphNumFunctions: ['int', ['ptr']],
  TF_GraphGetFunctions: ['int', ['ptr', 'ptr', 'int', 'ptr']],
  TF_FunctionName: ['str', ['ptr']],
  TF_FunctionToFunctionDef: ['void', ['ptr', 'ptr', 'ptr']],
  TF_FunctionImportFunctionDef: ['ptr', ['ptr', 'size', 'ptr']],
  TF_DeleteFunction: ['void', ['ptr']],
  TF_AddGradientsWithPrefix: ['void', ['ptr', 'str', 'ptr', 'int', 'ptr', 'int', 'ptr', 'ptr', 'ptr']],

  TF_NewSessionOptions: ['ptr', []],
  TF_SetTarget: ['void', ['ptr', 'str']],
  TF_SetConfig: ['void', ['ptr', 'ptr', 'size', 'ptr']],
  TF_DeleteSessionOptions: ['void', ['ptr']],
  TF_NewSession: ['ptr', ['ptr', 'ptr', 'ptr']],
  TF_LoadSessionFromSavedModel: ['ptr', ['ptr', 'ptr', 'str', 'ptr', 'int', 'ptr', 'ptr', 'ptr']],
  TF_CloseSession: ['void', ['ptr', 'ptr']],
  TF_DeleteSession: ['void', ['ptr', 'ptr']],
  TF_SessionRun: [
    'void',
    ['ptr', 'ptr', 'ptr', 'ptr', 'int', 'ptr', 'ptr', 'int', 'ptr', 'int', 'ptr', 'ptr'],
  ],
  TF_SessionListDevices: ['ptr', ['ptr', 'ptr']],
  TF_DeviceListCount: ['int', ['ptr']],
  TF_DeviceListName: ['str', ['ptr', 'int', 'ptr']],
  TF_DeviceListType: ['str', ['ptr', 'int', 'ptr']],
  TF_DeleteDeviceList: ['void', ['ptr']],

  TF_NewServer: ['ptr', ['ptr', 'size', 'ptr']],
  TF_ServerStart: ['void', ['ptr', 'ptr']],
  TF_ServerStop: ['void', ['ptr', 'ptr']],
  TF_ServerTarget: ['str', ['ptr']],
  TF_DeleteServer: ['void', ['ptr']],

  TF_GetAllOpList: ['ptr', []],
  TF_LoadLibrary: ['ptr', ['str', 'ptr']],
});

export type CName = keyof typeof DECLARATIONS;

type ArgumentsOf<K extends readonly ArgumentKind[]> = { -readonly [I in keyof K]: Arguments[K[I]] };

/** A C function: called synchronously, or on a thread of the pool through `.async`. */
export interface CFunction<R extends ResultKind, A extends readonly ArgumentKind[]> {
  (...args: ArgumentsOf<A>): Results[R];
  async(...args: [...ArgumentsOf<A>, (error: Error | null, result: Results[R]) => void]): void;
}

export type CApi = {
  readonly [N in CName]: CFunction<(typeof DECLARATIONS)[N][0], (typeof DECLARATIONS)[N][1]>;
};
