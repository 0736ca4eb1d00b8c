/** `shoal checkpoint`: declarations. */
import { buildCommand, buildRouteMap } from '@stricli/core';
import { PLACE_FLAGS, type PlaceFlags, REPLICAS_FLAG, whole, yes } from '../../checkpoint/flags.js';
import type { ShoalContext } from '../../context.js';

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
  'Which: those of the job that runs or ran here, in .shoal or --dir; of several, --job says which. Elsewhere: --agent,\n' +
  '--dirs or --store.\n';

const name = {
  parse: String,
  placeholder: 'name',
  brief: 'A prefix (model.ckpt-500), a step (500), or latest',
  proposeCompletions: () => ['latest'],
} as const;

const lsCommand = buildCommand<LsFlags, [], ShoalContext>({
  loader: async () => (await import('./ls.js')).runLs,
  parameters: { flags: PLACE_FLAGS },
  docs: {
    brief: 'List the checkpoints, newest first, with their copies and their health',
    fullDescription:
      'Lists the checkpoints of every job here, or of --job, newest first: size, shards, copies that are there of those that should be, where, health.\n' +
      'whole: every file has its copies. degraded: some are missing. lost: a file has none.\n' +
      'Sizes are looked at, contents are not: `shoal checkpoint verify` reads them.\n' +
      `${WHERE}\n` +
      'Examples:\n' +
      '  shoal checkpoint ls\n' +
      '  shoal checkpoint ls --agent 10.0.0.5:2222 --certs certs --json\n' +
      '  shoal checkpoint ls --store file:/nfs/train_logs',
  },
});

const inspectCommand = buildCommand<InspectFlags, [string], ShoalContext>({
  loader: async () => (await import('./inspect.js')).runInspect,
  parameters: {
    flags: {
      ...PLACE_FLAGS,
      tensor: {
        kind: 'parsed',
        parse: String,
        optional: true,
        placeholder: 'name',
        brief: 'Print values of this tensor',
      },
      first: {
        kind: 'parsed',
        parse: whole(0, 1_000_000),
        default: '20',
        placeholder: 'n',
        brief: 'How many values',
      },
    },
    positional: { kind: 'tuple', parameters: [name] },
  },
  docs: {
    brief: 'Show the tensors and the files of a checkpoint, or the values of a tensor',
    fullDescription:
      'Shows what a checkpoint holds and which task has which file.\n' +
      `${WHERE}\n` +
      'Examples:\n' +
      '  shoal checkpoint inspect latest\n' +
      '  shoal checkpoint inspect model.ckpt-500 --tensor layer/weights --first 100\n' +
      '  shoal checkpoint inspect 500 --json | jq .files',
  },
});

const verifyCommand = buildCommand<VerifyFlags, [name?: string], ShoalContext>({
  loader: async () => (await import('./verify.js')).runVerify,
  parameters: {
    flags: {
      ...PLACE_FLAGS,
      all: yes('All checkpoints; the newest alone unless told'),
      quick: yes('Each task sums its own copies: no data travels, and tensors’ own sums are not looked at'),
    },
    positional: { kind: 'tuple', parameters: [{ ...name, optional: true }] },
  },
  docs: {
    brief: 'Read every copy of every file and say which are damaged',
    fullDescription:
      'Reads every copy that is in reach, compares every chunk with the manifest, opens the index, and compares every\n' +
      'tensor with its own sum. Exits with 1 when anything is wrong.\n' +
      `${WHERE}\n` +
      'Examples:\n' +
      '  shoal checkpoint verify\n' +
      '  shoal checkpoint verify model.ckpt-500\n' +
      '  shoal checkpoint verify --all --quick',
  },
});

const pullCommand = buildCommand<PullFlags, [string, string], ShoalContext>({
  loader: async () => (await import('./pull.js')).runPull,
  parameters: {
    flags: PLACE_FLAGS,
    positional: {
      kind: 'tuple',
      parameters: [name, { parse: String, placeholder: 'dir', brief: 'Where to; made if need be' }],
    },
  },
  docs: {
    brief: 'Gather a checkpoint into a directory that TensorFlow reads',
    fullDescription:
      'Gathers the shards from the tasks that hold them, verifies every chunk, and takes another copy where one is\n' +
      'damaged. The directory then has what TensorFlow’s Saver would have written, the file `checkpoint` included.\n' +
      `${WHERE}\n` +
      'Examples:\n' +
      '  shoal checkpoint pull latest out\n' +
      '  shoal checkpoint pull 500 out --dir .shoal/mnist',
  },
});

const pushCommand = buildCommand<PushFlags, [string], ShoalContext>({
  loader: async () => (await import('./push.js')).runPush,
  parameters: {
    flags: {
      ...PLACE_FLAGS,
      replicas: { ...REPLICAS_FLAG, brief: 'Copies of each shard beside the first one; 1 unless told' },
    },
    positional: {
      kind: 'tuple',
      parameters: [
        {
          parse: String,
          placeholder: 'path',
          brief: 'logs/model.ckpt-500, or a directory for the newest in it',
        },
      ],
    },
  },
  docs: {
    brief: 'Take a TensorFlow checkpoint into the store',
    fullDescription:
      'Takes a checkpoint that TensorFlow or `shoal checkpoint pull` wrote into the store. It becomes the newest of the\n' +
      'job: a job that starts goes on from it.\n' +
      `${WHERE}\n` +
      'Examples:\n' +
      '  shoal checkpoint push logs/model.ckpt-500\n' +
      '  shoal checkpoint push logs --job mnist --agent 10.0.0.5:2222',
  },
});

const rmCommand = buildCommand<RmFlags, [string], ShoalContext>({
  loader: async () => (await import('./rm.js')).runRm,
  parameters: {
    flags: {
      ...PLACE_FLAGS,
      yes: yes('Do not ask'),
      force: yes('The newest one too'),
    },
    aliases: { y: 'yes' },
    positional: { kind: 'tuple', parameters: [name] },
  },
  docs: {
    brief: 'Remove a checkpoint, with all its copies',
    fullDescription:
      'Removes all copies that are in reach. The newest checkpoint stays unless --force is given.\n' +
      `${WHERE}\n` +
      'Examples:\n' +
      '  shoal checkpoint rm model.ckpt-500\n' +
      '  shoal checkpoint rm 500 --yes',
  },
});

const repairCommand = buildCommand<RepairFlags, [name?: string], ShoalContext>({
  loader: async () => (await import('./repair.js')).runRepair,
  parameters: {
    flags: {
      ...PLACE_FLAGS,
      all: yes('All checkpoints; the newest alone unless told'),
      dryRun: yes('Say what would be done, and do nothing'),
      replicas: {
        ...REPLICAS_FLAG,
        brief: 'Copies of each shard beside the first one; as many as when it was saved unless told',
      },
    },
    positional: { kind: 'tuple', parameters: [{ ...name, optional: true }] },
  },
  docs: {
    brief: 'Replace damaged copies and make those that are missing',
    fullDescription:
      'After a host was lost, or a disk has gone bad: replaces damaged copies, makes missing ones on other hosts, and\n' +
      'puts index and manifest everywhere. Exits with 1 when something could not be mended.\n' +
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
  docs: { brief: 'List, verify, fetch, mend and remove checkpoints' },
});
