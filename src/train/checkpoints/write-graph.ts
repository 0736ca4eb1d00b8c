/** Writes a graph into a directory, as text unless told: what people look at, and `import_graph_def` reads. */
import { randomBytes } from 'node:crypto';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fromBinary } from '@bufbuild/protobuf';
import type { Graph } from '../../graph/graph.js';
import { GraphDefSchema } from '../../proto/generated/graph_pb.js';
import { textFormat } from '../../proto/text-format.js';

/** Gives the path of the file, which is there whole or not at all. */
export async function writeGraph(
  graph: Graph,
  directory: string,
  name = 'graph.pbtxt',
  { asText = true }: { readonly asText?: boolean } = {},
): Promise<string> {
  const bytes = graph.toGraphDefBytes();
  const path = join(directory, name);
  const draft = join(directory, `.${name}.${randomBytes(4).toString('hex')}`);
  await mkdir(directory, { recursive: true });
  try {
    await writeFile(draft, asText ? textFormat(GraphDefSchema, fromBinary(GraphDefSchema, bytes)) : bytes);
    await rename(draft, path);
  } finally {
    await rm(draft, { force: true });
  }
  return path;
}
