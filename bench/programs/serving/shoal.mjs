// `shoal serve` as a library, over both protocols. Prints its ports.
import { join } from 'node:path';
import { serve } from '../../../dist/app/serving/index.js';

const { directory, batching } = JSON.parse(process.env.BENCH);
const models = Object.fromEntries(['softmax', 'embedding'].map((name) => [name, join(directory, name)]));
const server = await serve({
  models,
  restPort: 0,
  grpcPort: 0,
  log: () => {},
  ...(batching && { batching }),
});
console.log(JSON.stringify({ grpc: server.grpcPort, rest: server.restPort }));
process.on('SIGTERM', () => server.close({ graceSecs: 1 }));
