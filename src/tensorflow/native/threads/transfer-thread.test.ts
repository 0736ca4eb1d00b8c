/** The thread and its process: the thread keeps no process alive, and no process waits for it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, it } from 'vitest';
import { duplicateOf } from './descriptors.js';

const moduleOf = (path: string) => JSON.stringify(new URL(path, import.meta.url).href);

/** Two channels of one process begin to move 1 GB each way; then comes `ending`. */
const program = (ending: string) => `
  import { once } from 'node:events';
  import { connect, createServer } from 'node:net';
  import { duplicateOf } from ${moduleOf('./descriptors.ts')};
  import { C, library } from ${moduleOf('../library/library.ts')};
  import { transferThread } from ${moduleOf('./transfer-thread.ts')};
  library();
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const accepted = once(server, 'connection');
  const client = connect(server.address().port, '127.0.0.1');
  const [[peer]] = await Promise.all([accepted, once(client, 'connect')]);
  const thread = await transferThread();
  const size = 1e9;
  const memory = () => C().TF_TensorData(C().TF_AllocateTensor(4, BigInt64Array.of(BigInt(size)), 1, size));
  const events = { onDone: () => console.log('done'), onEnded: () => {} };
  for (const socket of [client, peer]) {
    const channel = thread.open(duplicateOf(socket), events);
    socket.destroy();
    channel.send(memory(), size);
    channel.receive(memory(), size);
  }
  server.close();
  ${ending}`;

async function endOf(ending: string) {
  const args = ['--import', 'tsx', '--input-type=module', '-e', program(ending)];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let errors = '';
  child.stderr.on('data', (text) => {
    errors += text;
  });
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
  return { code, signal, errors };
}

it.each([
  ['when nothing else is to do', '', 0],
  ['when it calls process.exit', 'setTimeout(() => process.exit(3), 30);', 3],
  ['by an error', 'setTimeout(() => { throw new Error("mine"); }, 30);', 1],
])('a process ends during a transfer %s', async (_, ending, code) => {
  const end = await endOf(ending);
  expect(end).toMatchObject({ code, signal: null });
  if (code !== 1) expect(end.errors).toBe('');
});

it('a socket that is closed has no descriptor', () => {
  expect(() => duplicateOf({ _handle: null } as never)).toThrowError(
    expect.objectContaining({ code: 'SHOAL_UNREACHABLE' }),
  );
});
