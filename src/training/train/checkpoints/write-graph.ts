/** Writes the GraphDef of a graph, as text by default, to be read by people and by `import_graph_def`. */
import { randomBytes } from 'node:crypto';
import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fromBinary } from '@bufbuild/protobuf';
import { makeDirectory } from '../../../base/files/directories.js';
import { GraphDefSchema } from '../../../base/proto/generated/graph_pb.js';
import { textFormat } from '../../../base/proto/text-format.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';

/** Writes the file atomically, with `asText` (default: true) in text format; returns its path. */
export async function writeGraph(
  graph: Graph,
  directory: string,
  name = 'graph.pbtxt',
  { asText = true }: { readonly asText?: boolean } = {},
): Promise<string> {
  const bytes = graph.toGraphDefBytes();
  const path = join(directory, name);
  const draft = join(directory, `.${name}.${randomBytes(4).toString('hex')}`);
  await makeDirectory(directory);
  try {
    await writeFile(draft, asText ? textFormat(GraphDefSchema, fromBinary(GraphDefSchema, bytes)) : bytes);
    await rename(draft, path);
  } finally {
    await rm(draft, { force: true });
  }
  return path;
}
