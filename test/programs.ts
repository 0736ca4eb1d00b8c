/** Programs that tests run as processes. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { bundledProgram, programsAreCurrent } from '../scripts/dev/test-programs.mjs';

const MAKE = fileURLToPath(new URL('../scripts/dev/test-programs.mjs', import.meta.url));

let isMade = false;

/** The file that Node runs for a program, given by its path in the checkout. */
export function programFile(source: string): string {
  if (!isMade && !programsAreCurrent()) {
    const { status, stderr } = spawnSync(process.execPath, [MAKE], { encoding: 'utf8' });
    if (status !== 0) throw new Error(`the programs of the tests cannot be bundled:\n${stderr}`);
  }
  isMade = true;
  return bundledProgram(source);
}
