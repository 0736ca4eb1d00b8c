/** `shoal completion`: the script for each shell, and the completions for each Tab. */
import { proposeCompletions } from '@stricli/core';
import { application } from '../../application.js';
import type { ShoalContext } from '../../context.js';
import type { Shell } from './command.js';

/**
 * The script passes the words after `--`, the incomplete one last. Without completions the shell completes file names,
 * as for the job file.
 */
const SCRIPTS: Readonly<Record<Shell, string>> = {
  bash: `_shoal() {
  local IFS=$'\\n'
  COMPREPLY=($(shoal complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _shoal shoal`,
  zsh: `_shoal() {
  local -a found
  found=("\${(@f)$(shoal complete -- "\${words[@]:1:$((CURRENT - 1))}" 2>/dev/null)}")
  if [[ -n "\${found[*]}" ]]; then compadd -- "\${found[@]}"; else _files; fi
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
compdef _shoal shoal`,
  fish: `complete -c shoal -a '(shoal complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'`,
};

const TAKES_FILE = /^(run|task|checkpoint (push|pull))( |$)/;

export function runCompletion(this: ShoalContext, _flags: object, shell: Shell): void {
  this.process.stdout.write(`${SCRIPTS[shell]}\n`);
}

export async function runComplete(this: ShoalContext): Promise<void> {
  const found = await proposeCompletions(application, this.rest, this);
  const word = this.rest.at(-1) ?? '';
  // Where a file is accepted, flags are proposed only after a dash.
  const flags = word.startsWith('-') || !TAKES_FILE.test(this.rest.slice(0, -1).join(' '));
  for (const { completion } of found) {
    if (flags || !completion.startsWith('-')) this.process.stdout.write(`${completion}\n`);
  }
}
