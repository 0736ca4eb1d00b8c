/** A launcher of fake tasks as a separate process, for tests: `launch.ts OPTIONS-AS-JSON`. */
import { runLocalCluster } from '../local-cluster.js';
import { Screen } from '../screen.js';
import { stopSignals } from '../stop-signals.js';
import { standIns } from './stand-ins.js';

const { stop, kill, dispose } = stopSignals();
const screen = new Screen({ stdout: process.stdout, stderr: process.stderr, env: process.env });
const given = JSON.parse(process.argv[2]!);
process.exitCode = await runLocalCluster(standIns({ ...given, env: process.env, screen, stop, kill }));
dispose();
