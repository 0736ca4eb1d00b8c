/**
 * Where the variables of an export come from. A source writes them as a tensor bundle, which is what a checkpoint is
 * too: from a session of this process, from the tasks of a cluster, or from a stored checkpoint.
 */
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { savedVariable } from '../../../distributed/checkpoint/format/saved-variable.js';
import { ShardImage } from '../../../distributed/checkpoint/format/shard-image.js';
import { writeIndexFile } from '../../../tensorflow/formats/tensor-bundle/index-file.js';
import { dataFile, indexFile } from '../../../tensorflow/formats/tensor-bundle/naming.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import type { Runner } from '../../../tensorflow/session/runner.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { type NamedVariable, trainedVariables } from './trained-variables.js';

export interface WriteRequest {
  readonly variables: readonly NamedVariable[];
  /** Where the files go: `PREFIX.index` and `PREFIX.data-0000i-of-0000n`. It exists. */
  readonly directory: string;
  readonly prefix: string;
  /** Cancels the write; default: none. */
  readonly signal?: AbortSignal;
}

export interface VariableSource {
  /**
   * Writes the values of all variables, of one instant, and flushes them to the disk. The bundle may hold other tensors
   * too. After a failure the contents of the directory are undefined.
   */
  write(request: WriteRequest): Promise<void>;
}

/** How long a read of all variables may take before the export fails. */
const READ_TIMEOUT_MS = 10 * 60_000;

/**
 * The variables as a session sees them, read in one run. In the session's own process that takes references, not
 * copies. Through a session on other machines all values pass through the memory of this process, and steps of other
 * workers may fall between the reads.
 */
export function sessionVariables(
  session: Runner,
  options: {
    /** The graph of the session, if another graph is exported. Variables are matched by their names. */
    readonly trained?: Graph;
  } = {},
): VariableSource {
  return {
    async write({ variables: exported, directory, prefix, signal }) {
      const variables = options.trained ? trainedVariables(exported, options.trained) : exported;
      const reads = variables.map(({ variable }) => variable.toOutput());
      const limits = { timeoutMs: READ_TIMEOUT_MS, signal };
      const tensors = (await session.run(reads, limits)) as Tensor[];
      try {
        const held = variables.map(({ variable, key }, i) => ({
          variable: savedVariable(variable, key),
          tensor: tensors[i] as Tensor,
        }));
        const image = new ShardImage(held);
        await writeFlushed(join(directory, dataFile(prefix, 0, 1)), image.source(0), signal);
        await writeFlushed(join(directory, indexFile(prefix)), [writeIndexFile(image.sums().index)], signal);
      } finally {
        for (const tensor of tensors) tensor.dispose();
      }
    },
  };
}

/** Writes a file in pieces and flushes it to the disk. */
export async function writeFlushed(
  path: string,
  pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  signal?: AbortSignal,
): Promise<void> {
  const handle = await open(path, 'wx');
  try {
    for await (const piece of pieces) {
      signal?.throwIfAborted();
      for (let at = 0; at < piece.byteLength; ) {
        const { bytesWritten } = await handle.write(piece, at);
        at += bytesWritten;
      }
    }
    await handle.datasync();
  } finally {
    await handle.close();
  }
}
