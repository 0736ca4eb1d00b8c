/**
 * The file `checkpoint`, which lists the checkpoints of a directory and names the newest. It is a CheckpointState in
 * protobuf text format. Its paths are relative to its directory, or absolute.
 */
import { isAbsolute, join, relative, resolve } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { fromText, toText } from '@bufbuild/protobuf/txtpb';
import { messageOf, ShoalError } from '../../../base/errors/errors.js';
import { CheckpointStateSchema } from '../../../base/proto/generated/checkpoint_pb.js';

export const CHECKPOINT_STATE_FILE = 'checkpoint';

export interface CheckpointState {
  /** The prefix of the newest checkpoint; empty if there is none. */
  readonly modelCheckpointPath: string;
  /** All retained checkpoints, oldest first, including the newest. */
  readonly allModelCheckpointPaths: readonly string[];
  /** The creation time of each in seconds since 1970; as many as paths, or none. */
  readonly allModelCheckpointTimestamps: readonly number[];
  /** The creation time of the last permanently retained checkpoint; 0 if there is none. */
  readonly lastPreservedTimestamp: number;
}

/** @param source the name of the file, for error messages. */
export function parseCheckpointState(text: string, source = CHECKPOINT_STATE_FILE): CheckpointState {
  try {
    const state = fromText(CheckpointStateSchema, text);
    return {
      modelCheckpointPath: state.modelCheckpointPath,
      allModelCheckpointPaths: state.allModelCheckpointPaths,
      allModelCheckpointTimestamps: state.allModelCheckpointTimestamps,
      lastPreservedTimestamp: state.lastPreservedTimestamp,
    };
  } catch (cause) {
    throw new ShoalError('SHOAL_CORRUPT', `${source} is not a checkpoint state: ${messageOf(cause)}`, {
      hint: 'delete the file, or pass the path of a checkpoint instead of its directory',
      cause,
    });
  }
}

export function formatCheckpointState(state: CheckpointState): string {
  return toText(
    CheckpointStateSchema,
    create(CheckpointStateSchema, {
      modelCheckpointPath: state.modelCheckpointPath,
      allModelCheckpointPaths: [...state.allModelCheckpointPaths],
      allModelCheckpointTimestamps: [...state.allModelCheckpointTimestamps],
      lastPreservedTimestamp: state.lastPreservedTimestamp,
    }),
  );
}

function mapPaths(state: CheckpointState, change: (path: string) => string): CheckpointState {
  return {
    ...state,
    modelCheckpointPath: state.modelCheckpointPath && change(state.modelCheckpointPath),
    allModelCheckpointPaths: state.allModelCheckpointPaths.map(change),
  };
}

/** The state with paths resolved against `directory`. */
export function resolvePaths(state: CheckpointState, directory: string): CheckpointState {
  return mapPaths(state, (path) => (isAbsolute(path) ? path : join(directory, path)));
}

/** The state as written in `directory`: paths below it are relative, so that the directory can be moved. */
export function relativePaths(state: CheckpointState, directory: string): CheckpointState {
  const root = resolve(directory);
  return mapPaths(state, (path) => {
    const inside = relative(root, resolve(path));
    const outside = inside === '' || inside === '..' || inside.startsWith('../') || isAbsolute(inside);
    return outside ? resolve(path) : inside;
  });
}
