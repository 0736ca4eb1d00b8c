/** Computes the gradients of any number of graphs in one Python TensorFlow process. */
import { askPython } from '../../../../test/python.js';
import { type DType, dtypeRow } from '../../tensor/dtype.js';
import { Tensor } from '../../tensor/tensor.js';

export interface OracleTensor {
  readonly dtype: DType;
  readonly shape: readonly number[];
  /** The bytes in base64; strings are unchanged. */
  readonly data: string | readonly string[];
}

export interface OracleQuestion {
  /** A GraphDef in base64. */
  readonly graph: string;
  readonly feeds: Readonly<Record<string, OracleTensor>>;
  readonly init: readonly string[];
  readonly ys: readonly string[];
  readonly gradYs: readonly string[];
  readonly xs: readonly string[];
  /** Placeholders for the incoming gradients of the first order; used for the second order. */
  readonly secondGradYs?: readonly string[];
}

export interface OracleGradient extends OracleTensor {
  /** Whether TensorFlow returned IndexedSlices. */
  readonly sparse: boolean;
}

export type OracleAnswer =
  | { readonly gradients: readonly (OracleGradient | null)[] }
  | { readonly error: string };

export interface OracleRequest {
  readonly cases: readonly OracleQuestion[];
  /** Op types to look up in TensorFlow's registry. */
  readonly lookUp?: readonly string[];
}

export interface OracleReply {
  readonly cases: readonly OracleAnswer[];
  readonly lookUp: Readonly<Record<string, 'gradient' | 'none' | 'unknown'>>;
}

export function toOracle(tensor: Tensor): OracleTensor {
  const { dtype, shape } = tensor;
  if (dtype === 'string') return { dtype, shape, data: (tensor.toArray() as unknown[]).flat(9) as string[] };
  const { buffer, byteOffset, byteLength } = tensor.data;
  return {
    dtype,
    shape,
    data: Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength).toString('base64'),
  };
}

export function fromOracle({ dtype, shape, data }: OracleTensor): Tensor {
  const bytes = Uint8Array.from(Buffer.from(data as string, 'base64'));
  const ArrayType = dtypeRow(dtype).array;
  if (!ArrayType) throw new Error(`a gradient of type ${dtype} cannot be compared`);
  return Tensor.of(new ArrayType(bytes.buffer), { dtype, shape });
}

export function askOracle(request: OracleRequest): Promise<OracleReply> {
  return askPython<OracleReply>(new URL('./oracle.py', import.meta.url), request);
}
