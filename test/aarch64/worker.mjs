/**
 * The checks of the smoke test on the built package in `dist`: first in this process, then with the ps
 * of another process. The first argument is the expected architecture.
 */
import { clusterChecks } from './cluster-checks.mjs';
import { localChecks } from './local-checks.mjs';
import { Answers, check, endWithCommand, send } from './reporter.mjs';

const answers = new Answers();
endWithCommand();
for (const [name, body] of localChecks({ arch: process.argv[2] ?? process.arch })) await check(name, body);
for (const [name, body] of clusterChecks(answers)) await check(name, body);
send({ done: true });
// TensorFlow's server cannot be stopped and would keep the process alive.
process.exit(0);
