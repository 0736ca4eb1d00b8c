/** Executes commands from stdin, one JSON object per line, and prints each result on stdout. */
import { createInterface } from 'node:readline';
import { describeError, isShoalError } from '../../src/base/errors/errors.js';

export function serveCommands<C extends { readonly id: number }>(execute: (command: C) => unknown): void {
  const commands = createInterface({ input: process.stdin });
  commands.on('line', async (line) => {
    const command = JSON.parse(line) as C;
    const reply = (answer: object) =>
      process.stdout.write(`${JSON.stringify({ id: command.id, ...answer })}\n`);
    try {
      reply({ result: (await execute(command)) ?? null });
    } catch (error) {
      reply({ error: describeError(error), code: isShoalError(error) ? error.code : '' });
    }
  });
  // The test process has exited: nothing else would end this one.
  commands.on('close', () => process.exit(1));
}
