import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';

test.each(['exec', 'run-script'])('the end of the shell of npx counts as SIGTERM (%s)', async (command) => {
  const url = pathToFileURL(`${import.meta.dirname}/stop-signals.ts`).href;
  const program = `
    const { stopSignals } = await import(${JSON.stringify(url)});
    const { stop } = stopSignals();
    stop.addEventListener('abort', () => { console.log('stopped by ' + stop.reason); process.exit(); });
    setTimeout(() => { console.log('not stopped'); process.exit(); }, 5000);
    console.log('ready');`;
  // As npx does it: the shell waits for the program.
  const script = '"$NODE" --import tsx --input-type=module -e "$PROGRAM"; exit';
  const env = { ...process.env, NODE: process.execPath, PROGRAM: program, npm_command: command };
  const shell = spawn('sh', ['-c', script], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  shell.stdout.on('data', (chunk: Buffer) => {
    output += chunk;
    if (output === 'ready\n') shell.kill('SIGTERM');
  });
  await once(shell.stdout, 'close');
  expect(output).toBe(`ready\n${command === 'exec' ? 'stopped by SIGTERM' : 'not stopped'}\n`);
});
