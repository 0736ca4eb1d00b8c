/** `shoal publish`: sends a version to serving processes, or rolls them back, and says what each of them has. */
import { readFile } from 'node:fs/promises';
import { messageOf } from '../../../../base/errors/errors.js';
import { EXIT } from '../../../../base/errors/exit-codes.js';
import { bytes } from '../../../../base/text/format.js';
import { loadTls, type Security, tokenSecurity } from '../../../../distributed/cluster/spec/security.js';
import { publish } from '../../../serving/publish/publish.js';
import { rollBack } from '../../../serving/publish/roll-back.js';
import type { ChangeResult, PublishProgress, TargetResult } from '../../../serving/publish/targets.js';
import { withTerminal } from '../../checkpoint/command.js';
import type { ShoalContext } from '../../context.js';
import { UsageError } from '../../failure.js';
import type { PublishFlags } from './command.js';

export async function runPublish(this: ShoalContext, flags: PublishFlags, directory?: string): Promise<void> {
  if (flags.rollback ? directory !== undefined || flags.version !== undefined : directory === undefined)
    throw new UsageError(
      'SHOAL_INVALID_ARGUMENT',
      flags.rollback ? '--rollback takes neither a directory nor a version' : 'no version is given',
      { hint: 'shoal publish DIR --to host:port, or shoal publish --rollback --to host:port' },
    );
  const security = await securityOf(flags);
  await withTerminal(this, flags, async ({ signal, onNotice, answer }) => {
    const options = {
      to: flags.to
        .split(',')
        .map((address) => address.trim())
        .filter((address) => address !== ''),
      model: flags.model,
      security,
      deadlineSecs: flags.deadline,
      signal,
      onProgress: flags.json ? undefined : progressLines(onNotice),
    };
    const result = flags.rollback
      ? await rollBack(options)
      : await publish({
          ...options,
          directory: directory as string,
          version: flags.version,
          skipsAbsent: flags.skipAbsent,
        });
    answer(asJson(result), () => result.targets.map((target) => lineOf(target, result)));
    if (result.targets.some(({ outcome }) => outcome.kind === 'absent')) process.exitCode = EXIT.error;
  });
}

async function securityOf({ certs, tokenFile }: PublishFlags): Promise<Security> {
  if (certs !== undefined) return loadTls(certs, 'operator');
  const token = tokenFile === undefined ? process.env.SHOAL_PUBLISH_TOKEN : await readToken(tokenFile);
  return token ? tokenSecurity(token) : { kind: 'none' };
}

async function readToken(file: string): Promise<string> {
  try {
    return (await readFile(file, 'utf8')).trim();
  } catch (cause) {
    throw new UsageError('SHOAL_CONFIG', `the token file ${file} cannot be read: ${messageOf(cause)}`, {
      cause,
    });
  }
}

/** One line for each step of each target, and for each tenth that was sent. */
function progressLines(print: (line: string) => void): (progress: PublishProgress) => void {
  const last = new Map<string, string>();
  return ({ address, phase, sentBytes, bytes: all }) => {
    const tenth = all === 0 ? 0 : Math.floor((10 * sentBytes) / all);
    const key = `${phase} ${tenth}`;
    if (last.get(address) === key) return;
    last.set(address, key);
    const detail = phase === 'sending' ? ` ${bytes(sentBytes)} of ${bytes(all)}` : '';
    print(`${address}: ${phase}${detail}`);
  };
}

function lineOf({ address, outcome }: TargetResult, { version }: ChangeResult): string {
  switch (outcome.kind) {
    case 'done':
      return `${address}: version ${version} serves`;
    case 'settled':
      return `${address}: has version ${version} already`;
    case 'absent':
      return `${address}: does not have version ${version}: ${outcome.error.message}`;
  }
}

const asJson = ({ version, targets }: ChangeResult) => ({
  version,
  targets: targets.map(({ address, outcome }) => ({
    address,
    outcome: outcome.kind,
    ...(outcome.kind === 'absent' ? { code: outcome.error.code, error: outcome.error.message } : {}),
  })),
});
