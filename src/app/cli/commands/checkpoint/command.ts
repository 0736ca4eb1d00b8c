/** Declares `shoal checkpoint`. */
import { buildRouteMap } from '@stricli/core';
import { PLACE_FLAGS, type PlaceFlags, REPLICAS_FLAG } from '../../checkpoint/flags.js';
import { command } from '../../command.js';
import type { ShoalContext } from '../../context.js';
import { integer, optionalText, switchFlag } from '../../flags.js';

export type LsFlags = PlaceFlags;
export type PullFlags = PlaceFlags;
export interface InspectFlags extends PlaceFlags {
  readonly tensor?: string;
  readonly first: number;
}
export interface VerifyFlags extends PlaceFlags {
  readonly all: boolean;
  readonly quick: boolean;
}
export interface PushFlags extends PlaceFlags {
  readonly replicas?: number;
}
export interface RmFlags extends PlaceFlags {
  readonly yes: boolean;
  readonly force: boolean;
}
export interface RepairFlags extends PlaceFlags {
  readonly all: boolean;
  readonly dryRun: boolean;
  readonly replicas?: number;
}

const WHERE =
  'Default: the checkpoints of the job in ./.shoal or --dir, running or stopped; --job chooses one of several jobs.\n' +
  'Use --agent, --dirs or --store for checkpoints elsewhere.\n';

const name = {
  parse: String,
  placeholder: 'name',
  brief: 'A prefix (model.ckpt-500), a step (500), or latest',
  proposeCompletions: () => ['latest'],
} as const;

const nameOrPath = {
  ...name,
  placeholder: 'name|path',
  brief: 'A prefix (model.ckpt-500), a step (500), latest, or a path with a slash (logs/model.ckpt-500)',
} as const;

const ANY_CHECKPOINT =
  'With a slash it is the path of any TensorFlow checkpoint on this disk, and no cluster is needed: a prefix, a directory\n' +
  'with a `checkpoint` file, or a SavedModel.\n';

const lsCommand = command<LsFlags, [], ShoalContext>({
  loader: async () => (await import('./ls.js')).runLs,
  parameters: { flags: PLACE_FLAGS },
  docs: {
    brief: 'List the checkpoints, newest first, with their copies and health',
    fullDescription:
      'Lists the checkpoints of every job, or of --job, newest first: size, shards, existing and expected copies, places,\n' +
      'health. complete: every file has all its copies. degraded: copies are missing. lost: a file has no copy. If tasks\n' +
      'that may hold the missing copies do not run, it says so: start them, or name their directories with --dirs.\n' +
      'Compares file sizes only; `shoal checkpoint verify` reads the contents.\n' +
      `${WHERE}\n` +
      'Examples:\n' +
      '  shoal checkpoint ls\n' +
      '  shoal checkpoint ls --agent 10.0.0.5:2222 --certs certs --json\n' +
      '  shoal checkpoint ls --store file:/nfs/train_logs',
  },
});

const inspectCommand = command<InspectFlags, [string], ShoalContext>({
  loader: async () => (await import('./inspect.js')).runInspect,
  parameters: {
    flags: {
      ...PLACE_FLAGS,
      tensor: optionalText('Print values of this tensor', 'name'),
      first: {
        kind: 'parsed',
        parse: integer(0, 1_000_000),
        default: '20',
        placeholder: 'n',
        brief: 'The number of values to print',
      },
    },
    positional: { kind: 'tuple', parameters: [nameOrPath] },
  },
  docs: {
    brief: 'Show the tensors and files of a checkpoint, or the values of a tensor',
    fullDescription:
      'Shows the contents of a checkpoint and which tasks hold each file.\n' +
      ANY_CHECKPOINT +
      `${WHERE}\n` +
      'Examples:\n' +
      '  shoal checkpoint inspect latest\n' +
      '  shoal checkpoint inspect model.ckpt-500 --tensor layer/weights --first 100\n' +
      '  shoal checkpoint inspect 500 --json | jq .files\n' +
      '  shoal checkpoint inspect export/1/',
  },
});

const verifyCommand = command<VerifyFlags, [name?: string], ShoalContext>({
  loader: async () => (await import('./verify.js')).runVerify,
  parameters: {
    flags: {
      ...PLACE_FLAGS,
      all: switchFlag('Verify all checkpoints; default: the newest'),
      quick: switchFlag(
        'Let each task checksum its own copies: no data is transferred, tensor checksums are skipped',
      ),
    },
    positional: { kind: 'tuple', parameters: [{ ...nameOrPath, optional: true }] },
  },
  docs: {
    brief: 'Read every copy of every file and report damage',
    fullDescription:
      'Reads every reachable copy, compares every chunk with the manifest, opens the index, and compares every\n' +
      'tensor with its checksum. Exits with 1 if anything is wrong.\n' +
      ANY_CHECKPOINT +
      `${WHERE}\n` +
      'Examples:\n' +
      '  shoal checkpoint verify\n' +
      '  shoal checkpoint verify model.ckpt-500\n' +
      '  shoal checkpoint verify --all --quick\n' +
      '  shoal checkpoint verify logs/model.ckpt-500',
  },
});

const pullCommand = command<PullFlags, [string, string], ShoalContext>({
  loader: async () => (await import('./pull.js')).runPull,
  parameters: {
    flags: PLACE_FLAGS,
    positional: {
      kind: 'tuple',
      parameters: [
        name,
        { parse: String, placeholder: 'dir', brief: 'The target directory; created if needed' },
      ],
    },
  },
  docs: {
    brief: 'Copy a checkpoint into a local directory that TensorFlow can read',
    fullDescription:
      'Copies the shards from the tasks that hold them, verifies every chunk, and reads another copy if one is\n' +
      'damaged. The directory then contains what TensorFlow’s Saver would have written, including the file `checkpoint`.\n' +
      `${WHERE}\n` +
      'Examples:\n' +
      '  shoal checkpoint pull latest out\n' +
      '  shoal checkpoint pull 500 out --dir .shoal/mnist\n' +
      '  shoal checkpoint pull latest out --dirs ps-0/blobs,ps-1/blobs,worker-0/blobs',
  },
});

const pushCommand = command<PushFlags, [string], ShoalContext>({
  loader: async () => (await import('./push.js')).runPush,
  parameters: {
    flags: {
      ...PLACE_FLAGS,
      replicas: { ...REPLICAS_FLAG, brief: 'Copies of each shard in addition to the first; default: 1' },
    },
    positional: {
      kind: 'tuple',
      parameters: [
        {
          parse: String,
          placeholder: 'path',
          brief: 'A prefix such as logs/model.ckpt-500, or a directory to take its newest checkpoint',
        },
      ],
    },
  },
  docs: {
    brief: 'Import a TensorFlow checkpoint into the store',
    fullDescription:
      'Imports a checkpoint that TensorFlow or `shoal checkpoint pull` wrote. It becomes the newest checkpoint of the job:\n' +
      'the job resumes from it when it starts.\n' +
      `${WHERE}\n` +
      'Examples:\n' +
      '  shoal checkpoint push logs/model.ckpt-500\n' +
      '  shoal checkpoint push logs --job mnist --agent 10.0.0.5:2222',
  },
});

const rmCommand = command<RmFlags, [string], ShoalContext>({
  loader: async () => (await import('./rm.js')).runRm,
  parameters: {
    flags: {
      ...PLACE_FLAGS,
      yes: switchFlag('Do not ask for confirmation'),
      force: switchFlag('Remove the checkpoint even if it is the newest'),
    },
    aliases: { y: 'yes' },
    positional: { kind: 'tuple', parameters: [name] },
  },
  docs: {
    brief: 'Remove all copies of a checkpoint',
    fullDescription:
      'Removes all reachable copies. Refuses to remove the newest checkpoint without --force.\n' +
      `${WHERE}\n` +
      'Examples:\n' +
      '  shoal checkpoint rm model.ckpt-500\n' +
      '  shoal checkpoint rm 500 --yes',
  },
});

const repairCommand = command<RepairFlags, [name?: string], ShoalContext>({
  loader: async () => (await import('./repair.js')).runRepair,
  parameters: {
    flags: {
      ...PLACE_FLAGS,
      all: switchFlag('Repair all checkpoints; default: the newest'),
      dryRun: switchFlag('Print what would be done, without doing it'),
      replicas: {
        ...REPLICAS_FLAG,
        brief: 'Copies of each shard in addition to the first; default: as many as when it was saved',
      },
    },
    positional: { kind: 'tuple', parameters: [{ ...name, optional: true }] },
  },
  docs: {
    brief: 'Replace damaged copies and create missing ones',
    fullDescription:
      'For use after the loss of a host or a disk: replaces damaged copies, creates missing copies on other hosts, and\n' +
      'copies the index and the manifest to every place. Exits with 1 if something could not be repaired.\n' +
      `${WHERE}\n` +
      'Examples:\n' +
      '  shoal checkpoint repair --dry-run\n' +
      '  shoal checkpoint repair --all --replicas 2',
  },
});

export const checkpointCommands = buildRouteMap({
  routes: {
    ls: lsCommand,
    inspect: inspectCommand,
    verify: verifyCommand,
    pull: pullCommand,
    push: pushCommand,
    rm: rmCommand,
    repair: repairCommand,
  },
  docs: { brief: 'List, verify, copy, repair and remove checkpoints' },
});
