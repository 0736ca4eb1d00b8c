/** `shoal setup`: fetches TensorFlow's libraries and prints their location. */
import type { CommandContext } from '@stricli/core';
import { fetchTensorFlow } from '../../../../../scripts/setup/fetch.mjs';
import { interruptible } from '../../../../../scripts/setup/processes.mjs';
import { asShoalError } from '../../../../tensorflow/native/library/locate.js';
import type { SetupFlags } from './command.js';

export async function runSetup(this: CommandContext, flags: SetupFlags): Promise<void> {
  const { stdout, stderr } = this.process;
  const log = (line: string): void => stderr.write(`shoal: ${line}\n`);
  const library = await interruptible((signal) => fetchTensorFlow({ signal, log, retriesAll: true })).catch(
    (error: unknown) => {
      throw asShoalError(error);
    },
  );
  if (flags.json) {
    stdout.write(`${JSON.stringify(library)}\n`);
    return;
  }
  const done = library.fetched ? 'is installed' : 'was already installed';
  stdout.write(`TensorFlow ${library.version ?? '(version unknown)'} ${done}: ${library.dir}\n`);
}
