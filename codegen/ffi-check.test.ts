import { beforeAll, describe, expect, test } from 'vitest';
import { TF_CODE_NAMES } from '../src/base/errors/errors.js';
import { DECLARATIONS } from '../src/tensorflow/native/library/c-api.js';
import { locateTensorFlow } from '../src/tensorflow/native/library/locate.js';
import { DTYPES } from '../src/tensorflow/tensor/dtype.js';
import {
  checkDeclarations,
  type Prototype,
  readEnum,
  readHeaders,
  readPrototypes,
  typeOf,
} from './ffi-check.js';

let headers: string;
let prototypes: Map<string, Prototype>;
beforeAll(() => {
  headers = readHeaders(locateTensorFlow().dir);
  prototypes = readPrototypes(headers);
});

describe('the declarations of the C API', () => {
  test('agree with the headers of the library', () => {
    expect(checkDeclarations(DECLARATIONS, prototypes)).toEqual([]);
  });

  test('with a wrong kind, argument count, result or name are reported', () => {
    const wrong = {
      TF_NumDims: ['i64', ['ptr']],
      TF_Dim: ['i64', ['ptr', 'size']],
      TF_AddInput: ['void', ['ptr', 'ptr']],
      TF_Message: ['ptr', ['ptr']],
      TF_SetAttrBool: ['void', ['ptr', 'str', 'int']],
      TF_SessionRun: ['void', ['ptr', 'ptr']],
      TF_NoSuchFunction: ['void', []],
    } as const;
    expect(checkDeclarations(wrong, prototypes)).toEqual([
      "TF_NumDims: the result is declared 'i64', in C it is int, which is 'int'",
      "TF_Dim: argument 2 is declared 'size', in C it is int, which is 'int'",
      "TF_AddInput: argument 2 is declared 'ptr', in C it is TF_Output, which is 'out'",
      "TF_Message: the result is declared 'ptr', in C it is char*, which is 'str'",
      "TF_SetAttrBool: argument 3 is declared 'int', in C it is unsigned char, which is 'u8'",
      'TF_SessionRun is declared with 2 arguments, in C it has 12',
      'TF_NoSuchFunction is not in the headers',
    ]);
  });
});

test('a C parameter is reduced to its type', () => {
  const types = [
    'const char* name',
    'unsigned char',
    'const int64_t* const* dims',
    'TF_Output x',
    'int n[]',
    'void',
  ];
  expect(types.map(typeOf)).toEqual(['char*', 'unsigned char', 'int64_t**', 'TF_Output', 'int*', 'void']);
});

describe('the numbers', () => {
  test('of the element types are those of TF_DataType', () => {
    const inHeader = new Set(readEnum(headers, 'TF_DataType').values());
    expect(new Set(Object.values(DTYPES).map(({ number }) => number))).toEqual(inHeader);
  });

  test('of the status codes are those of TSL_Code, if its header exists', () => {
    const codes = readEnum(headers, 'TSL_Code');
    const ours = TF_CODE_NAMES.map((name, number) => [`TSL_${name}`, number]);
    if (codes.size > 0) expect(Object.fromEntries(codes)).toEqual(Object.fromEntries(ours));
  });
});
