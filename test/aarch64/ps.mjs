/** The ps of the smoke test: a TensorFlow server that lasts until it is killed. */
import assert from 'node:assert/strict';
import { TensorFlowServer } from '../../dist/cluster/runtime/tensorflow-server.js';
import { check, endWithCommand, tell } from './reporter.mjs';

endWithCommand();
const started = await check('ps: a server starts, its request ids repaired', () => {
  const server = TensorFlowServer.start();
  assert.deepEqual(server.requestIds, { repaired: true });
  tell({ ready: server.address });
});
if (!started) process.exit(1);
