/** Asks Python TensorFlow for the gradients of graphs: one process for any number of them. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { type DType, dtypeRow } from '../../tensor/dtype.js';
import { Tensor } from '../../tensor/tensor.js';

export interface OracleTensor {
  readonly dtype: DType;
  readonly shape: readonly number[];
  /** The bytes, in base64; strings as they are. */
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
  /** Placeholders for what flows into the first gradients, when the gradient of the gradient is asked for. */
  readonly secondGradYs?: readonly string[];
}

export interface OracleGradient extends OracleTensor {
  /** Whether TensorFlow kept it as slices. */
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

export async function askOracle(request: OracleRequest): Promise<OracleReply> {
  const python = process.env.SHOAL_ORACLE_PYTHON;
  if (!python) {
    throw new Error(
      'Set SHOAL_ORACLE_PYTHON to a Python that has tensorflow installed: gradients are compared with it',
    );
  }
  const child = spawn(python, [fileURLToPath(new URL('oracle.py', import.meta.url))], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { ...process.env, TF_CPP_MIN_LOG_LEVEL: '3', CUDA_VISIBLE_DEVICES: '' },
  });
  const output: Buffer[] = [];
  const errors: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => errors.push(chunk));
  const ended = new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
    // A Python that dies early closes the pipe: its exit code and its words tell why.
    child.stdin.on('error', () => undefined);
  });
  child.stdin.end(JSON.stringify(request));
  const code = await ended;
  if (code !== 0) throw new Error(`The oracle ended with ${code}:\n${Buffer.concat(errors)}`);
  return JSON.parse(Buffer.concat(output).toString().trimEnd().split('\n').at(-1) as string) as OracleReply;
}
