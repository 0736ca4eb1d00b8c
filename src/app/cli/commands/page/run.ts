/** `shoal page`: prints the addresses of the page of a running cluster, or serves that of directories. */
import { resolve } from 'node:path';
import { askStatus } from '../../../../distributed/cluster/agent/status.js';
import { readClusterFile } from '../../../job/launcher/cluster-file.js';
import { stopSignals } from '../../../job/launcher/stop-signals.js';
import { serveDirectoryPage } from '../../../page/finished/serve-directory.js';
import { pageCode } from '../../../page/serve/access.js';
import type { ShoalContext } from '../../context.js';
import { findCluster } from '../../job/find-cluster.js';
import type { PageFlags } from './command.js';

export async function runPage(this: ShoalContext, flags: PageFlags, ...directories: string[]): Promise<void> {
  const [directory] = directories;
  const write = (line: string) => this.process.stdout.write(`${line}\n`);
  const isCluster = (dir: string) => (readClusterFile(resolve(dir))?.agents.length ?? 0) > 0;
  const isRunning = directories.length < 2 && (directory === undefined || isCluster(directory));
  if (isRunning) {
    for (const line of await addressesOf(flags, directory)) write(line);
    return;
  }
  const signals = stopSignals(this.outputClosed);
  try {
    await using page = await serveDirectoryPage(
      directories.map((dir) => resolve(dir)),
      flags.port,
    );
    write(`page: http://127.0.0.1:${page.port}/page · Ctrl-C ends`);
    await new Promise<void>((done) => {
      if (signals.stop.aborted) done();
      signals.stop.addEventListener('abort', () => done(), { once: true });
    });
  } finally {
    signals.dispose();
  }
}

/** The addresses of the page, the chief's first, and how to log in. */
async function addressesOf(flags: PageFlags, dir: string | undefined): Promise<readonly string[]> {
  const { agent, certs, clusterTokenFile } = flags;
  const where = { agent, certs, clusterTokenFile, dir, env: process.env, cwd: process.cwd() };
  const { addresses, security } = findCluster(where);
  const scheme = security.kind === 'tls' ? 'https' : 'http';
  const found = await askStatus({ addresses, security });
  const present = found.members.filter(({ status }) => status === 'alive');
  const ordered = [...present].sort(
    (a, b) => Number(b.task === found.chief) - Number(a.task === found.chief),
  );
  return [
    ...ordered.map(
      ({ task, agentAddress }) =>
        `${scheme}://${agentAddress}/page  ${task}${task === found.chief ? ' (chief)' : ''}`,
    ),
    ...(security.kind === 'token' ? [`code: ${pageCode(security.token)}`] : []),
    ...(security.kind === 'tls' ? ['The browser needs a certificate of the cluster: shoal certs'] : []),
  ];
}
