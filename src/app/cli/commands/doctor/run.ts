/** `shoal doctor`: prints the findings and sets the exit code. */
import type { CommandContext } from '@stricli/core';
import { examine } from '../../doctor/examine.js';
import { formatFindings } from '../../doctor/format.js';
import type { DoctorFlags } from './command.js';

export async function runDoctor(this: CommandContext, flags: DoctorFlags): Promise<void> {
  const diagnosis = await examine();
  const text = flags.json ? JSON.stringify(diagnosis, null, 2) : formatFindings(diagnosis);
  this.process.stdout.write(`${text}\n`);
  if (!diagnosis.usable) process.exitCode = 1;
}
