/** A program whose output is collected, standard output and errors together. */
import { type ChildProcess, spawn } from 'node:child_process';

export interface Program {
  readonly child: ChildProcess;
  readonly output: () => string;
  readonly ended: Promise<{ readonly code: number | null; readonly output: () => string }>;
}

export function startProcess(
  command: string,
  args: readonly string[],
  options: { readonly cwd: string; readonly env: NodeJS.ProcessEnv },
): Program {
  const child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
  }
  const output = () => text;
  const ended = new Promise<{ code: number | null; output: () => string }>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, output }));
  });
  return { child, output, ended };
}
