/** Runs every check. Checks are read-only: nothing is fetched, changed or loaded. */
import { checkChecksums } from './checksums.js';
import { checkCpu } from './cpu.js';
import { checkDisk } from './disk.js';
import type { Diagnosis } from './finding.js';
import { checkGpu } from './gpu.js';
import { checkLibrary } from './library.js';
import { checkNamespaces } from './namespaces.js';
import { checkNode } from './node.js';
import { checkOneDnn } from './onednn.js';
import { checkPlatform } from './platform.js';
import { checkPython } from './python.js';
import { checkRequestIds } from './request-ids.js';
import { checkThreadPool } from './threads.js';

export async function examine(env: Readonly<NodeJS.ProcessEnv> = process.env): Promise<Diagnosis> {
  const library = checkLibrary(env);
  const haveLibrary = library.status === 'ok';
  const requestIds = checkRequestIds(env);
  const findings = await Promise.all([
    checkPlatform(env),
    checkNode(process.versions.node),
    library,
    ...(requestIds ? [requestIds] : []),
    checkChecksums(env),
    checkCpu(),
    checkOneDnn(env),
    checkGpu(),
    checkThreadPool(),
    checkDisk(env, haveLibrary),
    checkNamespaces(),
    checkPython(env, haveLibrary),
  ]);
  return { usable: findings.every(({ status }) => status !== 'problem'), findings };
}
