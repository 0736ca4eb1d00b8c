/** The model of a job that does not run, from the graph beside its newest checkpoint. */
import { readFile, stat } from 'node:fs/promises';
import { fromBinary } from '@bufbuild/protobuf';
import { MetaGraphDefSchema } from '../../../base/proto/generated/model_pb.js';
import { describeModel } from '../model/describe-model.js';
import { modelOfGraphDef } from '../model/model-graph.js';
import type { PageModel } from '../state.js';

const LARGEST = 256 << 20;

/** Reads the first of these files that is a graph; null if none is. */
export async function readStoredModel(paths: readonly string[]): Promise<PageModel | null> {
  for (const path of paths) {
    try {
      if ((await stat(path)).size > LARGEST) continue;
      const { graphDef } = fromBinary(MetaGraphDefSchema, await readFile(path));
      if (graphDef) return describeModel(modelOfGraphDef(graphDef));
    } catch {
      // A copy that is gone or damaged: another one is read.
    }
  }
  return null;
}
