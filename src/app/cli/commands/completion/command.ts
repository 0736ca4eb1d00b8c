/** Declares `shoal completion`, and `shoal complete`, which the shell calls on each Tab. */
import { command } from '../../command.js';
import type { ShoalContext } from '../../context.js';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

const shell = (text: string): Shell => {
  const found = SHELLS.find((name) => name === text);
  if (found !== undefined) return found;
  throw new RangeError(`expected ${SHELLS.join(', ')}`);
};

export const completionCommand = command<Record<never, never>, [Shell], ShoalContext>({
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
    brief: 'Print the shell completion script',
    fullDescription:
      'Prints a script that completes the commands and flags of shoal and of npx shoal.\n' +
      '\n' +
      'Examples:\n' +
      '  bash:  npx shoal completion bash >> ~/.bashrc\n' +
      '  zsh:   npx shoal completion zsh >> ~/.zshrc\n' +
      '  fish:  npx shoal completion fish > ~/.config/fish/conf.d/shoal.fish',
  },
});

export const completeCommand = command<Record<never, never>, readonly string[], ShoalContext>({
  loader: async () => (await import('./run.js')).runComplete,
  parameters: {
    positional: {
      kind: 'array',
      parameter: { parse: String, placeholder: 'word', brief: 'The words of the command line so far' },
    },
  },
  docs: { brief: 'Print the completions of the last word, one per line' },
});
