/**
 * The checks of the smoke test, against the built package in `dist`: in this process first, then with the ps
 * that another process runs. The first argument is the architecture to be found here.
 */
import { clusterChecks } from './cluster-checks.mjs';
import { localChecks } from './local-checks.mjs';
import { Answers, check, endWithCommand, tell } from './reporter.mjs';

const answers = new Answers();
endWithCommand();
for (const [name, body] of localChecks({ arch: process.argv[2] ?? process.arch })) await check(name, body);
for (const [name, body] of clusterChecks(answers)) await check(name, body);
tell({ done: true });
// TensorFlow's server cannot be stopped and would keep the process.
process.exit(0);
