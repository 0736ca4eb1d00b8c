/** The ps of the smoke test: a TensorFlow server that runs until it is killed. */
import assert from 'node:assert/strict';
import { TensorFlowServer } from '../../dist/distributed/cluster/grpc/tensorflow-server.js';
import { check, endWithCommand, send } from './reporter.mjs';

endWithCommand();
const started = await check('ps: a server starts, with the request id fix', async () => {
  const server = await TensorFlowServer.start();
  assert.deepEqual(server.requestIds, { repaired: true });
  send({ ready: server.address });
});
if (!started) process.exit(1);
