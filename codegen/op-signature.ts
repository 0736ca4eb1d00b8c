/** The TypeScript signature of an op's wrapper, derived from the op's definition. */
import type { OpDef, OpDef_ArgDef, OpDef_AttrDef } from '../src/base/proto/generated/graph_pb.js';
import { type DType, dtypeFromNumber } from '../src/tensorflow/tensor/dtype.js';

export interface Parameter {
  /** The name in TypeScript, and in the op's definition. */
  readonly name: string;
  readonly tfName: string;
  readonly type: string;
}

export interface AttrParameter extends Parameter {
  readonly required: boolean;
  readonly note: string;
}

export interface Result extends Parameter {
  readonly list: boolean;
}

export interface Signature {
  readonly op: string;
  readonly name: string;
  readonly generics: readonly string[];
  readonly inputs: readonly Parameter[];
  readonly attrs: readonly AttrParameter[];
  readonly results: readonly Result[];
}

const RESERVED = new Set(
  `arguments attrs await break case catch class const continue debugger default delete do else enum eval export
  extends false finally for function if implements import in instanceof interface let new null package private
  protected public return static super switch this throw true try typeof var void while with yield`.split(
    /\s+/,
  ),
);

/** MatMul → matMul, IFFT → ifft, RGBToHSV → rgbToHSV, transpose_a → transposeA. */
export function camelCase(name: string): string {
  const words = name
    .replace(/[^A-Za-z0-9_]/g, '_')
    .replace(/(?<=[A-Za-z0-9])_+([A-Za-z0-9])/g, (_, c: string) => c.toUpperCase());
  const [, underscore, head, rest] = /^(_*)([A-Z0-9]*)(.*)$/.exec(words) as RegExpExecArray;
  const capitals = head as string;
  // The last capital of a run begins the next word, unless the run is the whole name or ends in a digit.
  const keep =
    capitals.length > 1 &&
    rest !== '' &&
    /[a-z]/.test((rest as string)[0] as string) &&
    !/[0-9]$/.test(capitals);
  const lowered = keep ? capitals.slice(0, -1).toLowerCase() + capitals.slice(-1) : capitals.toLowerCase();
  return underscore + lowered + rest;
}

const identifier = (name: string): string => {
  const camel = camelCase(name);
  return RESERVED.has(camel) ? `${camel}_` : camel;
};

/** Renames attributes that clash with the options of every wrapper. */
const attrIdentifier = (name: string): string =>
  ['name', 'device', 'controlInputs'].includes(camelCase(name)) ? `${camelCase(name)}Attr` : identifier(name);

const SCALAR_TYPES: Readonly<Record<string, string>> = {
  string: 'string | Uint8Array',
  int: 'number | bigint',
  float: 'number',
  bool: 'boolean',
  type: 'DType',
  shape: 'PartialShape',
  tensor: 'Tensor',
  func: 'FunctionRef',
};

export function signatureOf(def: OpDef, names: Readonly<Record<string, string>>): Signature {
  const inferred = inferredAttrs(def);
  const generics = genericAttrs(def, inferred);
  return {
    op: def.name,
    name: names[def.name] ?? identifier(def.name),
    generics: [...generics],
    inputs: def.inputArg.map((arg) => ({
      name: identifier(arg.name),
      tfName: arg.name,
      type: inputType(arg, generics),
    })),
    attrs: def.attr.filter((attr) => !inferred.has(attr.name)).map((attr) => attrParameter(attr, generics)),
    results: def.outputArg.map((arg) => ({
      name: camelCase(arg.name),
      tfName: arg.name,
      type: resultType(arg, generics),
      list: isList(arg),
    })),
  };
}

const isList = (arg: OpDef_ArgDef): boolean => arg.numberAttr !== '' || arg.typeListAttr !== '';

/** Attributes that TensorFlow infers from the inputs. */
function inferredAttrs(def: OpDef): Set<string> {
  return new Set(
    def.inputArg.flatMap((arg) => [arg.typeAttr, arg.numberAttr, arg.typeListAttr]).filter(Boolean),
  );
}

/** The type attributes that become type parameters: those that an output shares with an input or an attribute. */
function genericAttrs(def: OpDef, inferred: ReadonlySet<string>): Set<string> {
  const ofOutputs = new Set(def.outputArg.map((arg) => arg.typeAttr).filter(Boolean));
  const types = def.attr.filter((attr) => attr.type === 'type' && ofOutputs.has(attr.name));
  // The type parameter of an attribute that is neither inferred nor required would be a guess.
  return new Set(
    types.filter((attr) => inferred.has(attr.name) || !attr.defaultValue).map((attr) => attr.name),
  );
}

function dtypeOf(arg: OpDef_ArgDef, generics: ReadonlySet<string>): string | undefined {
  if (arg.type !== 0) return `'${dtypeFromNumber(arg.type)}'`;
  return generics.has(arg.typeAttr) ? arg.typeAttr : undefined;
}

function inputType(arg: OpDef_ArgDef, generics: ReadonlySet<string>): string {
  const dtype = dtypeOf(arg, generics);
  const one = dtype ? `Operand<${dtype}>` : 'Operand';
  return isList(arg) ? `readonly ${one}[]` : one;
}

function resultType(arg: OpDef_ArgDef, generics: ReadonlySet<string>): string {
  const dtype = dtypeOf(arg, generics);
  const one = dtype ? `Output<${dtype}>` : 'Output';
  return isList(arg) ? `Output[]` : one;
}

function attrParameter(attr: OpDef_AttrDef, generics: ReadonlySet<string>): AttrParameter {
  const list = attr.type.startsWith('list(');
  const base = list ? attr.type.slice(5, -1) : attr.type;
  const allowed = attr.allowedValues?.value.case === 'list' ? attr.allowedValues.value.value : undefined;
  const words = allowed?.s.map((bytes) => `'${new TextDecoder().decode(bytes)}'`) ?? [];
  let type = SCALAR_TYPES[base] ?? 'unknown';
  if (base === 'string' && words.length > 0) type = words.join(' | ');
  if (base === 'type' && generics.has(attr.name)) type = attr.name;
  if (list) type = /[ |]/.test(type) ? `readonly (${type})[]` : `readonly ${type}[]`;
  return {
    name: attrIdentifier(attr.name),
    tfName: attr.name,
    type,
    required: attr.defaultValue === undefined,
    note: attrNote(attr),
  };
}

function attrNote(attr: OpDef_AttrDef): string {
  const notes: string[] = [];
  const allowed = attr.allowedValues?.value.case === 'list' ? attr.allowedValues.value.value.type : [];
  if (allowed.length > 0) notes.push(`one of ${allowed.map((n) => dtypeFromNumber(n)).join(', ')}`);
  if (attr.hasMinimum) notes.push(`at least ${attr.minimum}`);
  const fallback = attr.defaultValue && showDefault(attr.defaultValue.value);
  if (fallback !== undefined) notes.push(`default: ${fallback}`);
  return notes.join('; ');
}

function showDefault(value: NonNullable<OpDef_AttrDef['defaultValue']>['value']): string | undefined {
  switch (value.case) {
    case 's':
      return JSON.stringify(new TextDecoder().decode(value.value));
    case 'i':
    case 'b':
      return String(value.value);
    case 'f':
      return String(Number(value.value.toPrecision(7)));
    case 'type':
      return dtypeFromNumber(value.value) satisfies DType;
    case 'shape':
      return value.value.unknownRank ? 'unknown' : `[${value.value.dim.map((dim) => dim.size).join(', ')}]`;
    case 'list': {
      const { s, i, f, b, type, shape } = value.value;
      const items = [
        ...s.map((x) => new TextDecoder().decode(x)),
        ...i,
        ...f,
        ...b,
        ...type.map(dtypeFromNumber),
      ];
      return shape.length > 0 ? undefined : `[${items.join(', ')}]`;
    }
    default:
      return undefined;
  }
}
