/** `shoal completion`: declarations. The second command is what the shell's function calls at each Tab. */
import { buildCommand } from '@stricli/core';
import type { ShoalContext } from '../../context.js';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

const shell = (text: string): Shell => {
  const found = SHELLS.find((name) => name === text);
  if (found !== undefined) return found;
  throw new RangeError(`expected ${SHELLS.join(', ')}`);
};

export const completionCommand = buildCommand<Record<never, never>, [Shell], ShoalContext>({
  loader: async () => (await import('./run.js')).runCompletion,
  parameters: {
    positional: {
      kind: 'tuple',
      parameters: [
        { parse: shell, placeholder: 'shell', brief: 'bash, zsh or fish', proposeCompletions: () => SHELLS },
      ],
    },
  },
  docs: {
    brief: 'Print the code that lets a shell complete shoal’s commands and flags',
    fullDescription:
      'Prints code for the shell to read.\n' +
      '\n' +
      'Examples:\n' +
      '  bash:  echo \'eval "$(shoal completion bash)"\' >> ~/.bashrc\n' +
      '  zsh:   echo \'eval "$(shoal completion zsh)"\' >> ~/.zshrc\n' +
      '  fish:  shoal completion fish > ~/.config/fish/completions/shoal.fish',
  },
});

export const completeCommand = buildCommand<Record<never, never>, readonly string[], ShoalContext>({
  loader: async () => (await import('./run.js')).runComplete,
  parameters: {
    positional: {
      kind: 'array',
      parameter: { parse: String, placeholder: 'word', brief: 'The words of the command line so far' },
    },
  },
  docs: { brief: 'Print what the last word can be completed to, one a line' },
});
