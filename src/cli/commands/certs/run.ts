/** `shoal certs init|issue`: writes the files and says where they are. */
import type { CommandContext } from '@stricli/core';
import { initCerts, issueCert } from '../../../cluster/spec/certs.js';
import type { CertsInitFlags, CertsIssueFlags } from './command.js';

export async function runCertsInit(this: CommandContext, flags: CertsInitFlags): Promise<void> {
  const { cert, key } = await initCerts(flags);
  this.process.stdout.write(
    `${cert} goes to every task\n${key} stays here, with whoever issues certificates\n`,
  );
}

export async function runCertsIssue(
  this: CommandContext,
  { dir, days, hosts }: CertsIssueFlags,
  bearer: string,
): Promise<void> {
  const names = hosts?.split(',').flatMap((host) => host.trim() || []);
  const { cert, key } = await issueCert({ dir, bearer, days, ...(names && { hosts: names }) });
  this.process.stdout.write(`${cert}\n${key}\n`);
}
