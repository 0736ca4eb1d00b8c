/** `shoal certs init|issue`: writes the files and prints their paths. */
import type { CommandContext } from '@stricli/core';
import { initCerts, issueCert } from '../../../../distributed/cluster/spec/certs.js';
import type { CertsInitFlags, CertsIssueFlags } from './command.js';

export async function runCertsInit(this: CommandContext, flags: CertsInitFlags): Promise<void> {
  const { cert, key } = await initCerts(flags);
  this.process.stdout.write(`${cert}: copy it to every task\n${key}: keep it here, it signs certificates\n`);
}

export async function runCertsIssue(
  this: CommandContext,
  { dir, days, hosts }: CertsIssueFlags,
  bearer: string,
): Promise<void> {
  const names = hosts?.split(',').flatMap((host) => host.trim() || []);
  const { cert, key } = await issueCert({ dir, bearer, days, hosts: names });
  this.process.stdout.write(`${cert}\n${key}\n`);
}
