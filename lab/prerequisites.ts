/** Prepares or checks what an experiment needs before it starts, so that it does not fail in the middle. */
import { tmpdir } from 'node:os';
import { ensureOracle } from '../scripts/dev/oracle.mjs';
import { checkSpace } from '../scripts/setup/disk-space.mjs';
import { ShoalError } from '../src/base/errors/errors.js';
import { asShoalError } from '../src/tensorflow/native/library/locate.js';
import type { Experiment, FlagValues } from './experiment.js';
import { type ProbeOptions, probe } from './hosts/namespace-support.js';

export interface CheckOptions {
  readonly flags?: FlagValues;
  readonly env?: NodeJS.ProcessEnv;
  readonly directory?: string;
  readonly probing?: ProbeOptions;
  readonly log?: (line: string) => void;
}

/** Throws an error with a hint if something is missing. Sets SHOAL_ORACLE_PYTHON in the environment. */
export async function prepareExperiment(
  { name, needs = {} }: Experiment,
  { flags = {}, env = process.env, directory = tmpdir(), probing, log = () => {} }: CheckOptions = {},
): Promise<void> {
  if (needs.isolation) await checkIsolation(name, needs.isolation, env, probing);
  if (needs.diskBytes !== undefined) {
    const needed = typeof needs.diskBytes === 'number' ? needs.diskBytes : needs.diskBytes(flags);
    const hint = 'Free some space, or set TMPDIR to a directory on a larger disk.';
    await checkSpace(`experiment ${name}`, directory, needed, { hint }).catch(rethrow);
  }
  if (needs.python) env.SHOAL_ORACLE_PYTHON = await ensureOracle({ env, log }).catch(rethrow);
}

function rethrow(error: unknown): never {
  throw asShoalError(error);
}

async function checkIsolation(
  name: string,
  isolation: 'required' | 'waivable',
  env: NodeJS.ProcessEnv,
  probing: ProbeOptions | undefined,
): Promise<void> {
  const waived = env.SHOAL_LAB === 'directories';
  if (waived && isolation === 'waivable') return;
  const support = await probe(probing);
  if (!waived && support.kind === 'namespaces') return;
  const why = support.kind === 'none' ? support.reason : 'SHOAL_LAB requests directories';
  throw new ShoalError('SHOAL_UNSUPPORTED', `experiment ${name} needs hosts in namespaces: ${why}`, {
    hint:
      'Run it on Linux as root, or where user namespaces are allowed, with iproute2 and util-linux installed.' +
      (isolation === 'waivable' ? ' Or run it with --directories, on hosts that are not isolated.' : ''),
  });
}
