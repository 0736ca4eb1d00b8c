/** `shoal completion`: the script for each shell, and the completions for each Tab. */

import { fileURLToPath } from 'node:url';
import { proposeCompletions } from '@stricli/core';
import { PACKAGE_ROOT } from '../../../../base/files/package.js';
import { application } from '../../application.js';
import type { ShoalContext } from '../../context.js';
import type { Shell } from './command.js';

const PROGRAM = fileURLToPath(new URL('bin/shoal.cjs', PACKAGE_ROOT));

/**
 * The script calls the program of the project in whose directory the shell is, as npx does; elsewhere the one that
 * printed the script. It passes the words after `--`, the incomplete one last. Without completions the shell completes
 * file names, as for the job file. `npx shoal` is completed too, unless npx has a completion of its own.
 */
const SCRIPTS: Readonly<Record<Shell, (program: string) => string>> = {
  bash: (program) => `${find(program)}
_shoal() {
  local IFS=$'\\n' from=1
  if [[ \${COMP_WORDS[0]} == npx ]]; then
    [[ \${COMP_WORDS[1]} == shoal && COMP_CWORD -gt 1 ]] || return
    from=2
  fi
  COMPREPLY=($(_shoal_complete "\${COMP_WORDS[@]:from:COMP_CWORD - from + 1}"))
}
complete -o default -F _shoal shoal
complete -p npx >/dev/null 2>&1 || complete -o default -F _shoal npx`,
  zsh: (program) => `${find(program)}
_shoal() {
  local -a found
  local from=1
  if [[ $words[1] == npx ]]; then
    [[ $words[2] == shoal && CURRENT -gt 2 ]] || { _files; return; }
    from=2
  fi
  found=("\${(@f)$(_shoal_complete "\${words[@]:$from:$((CURRENT - from))}")}")
  if [[ -n "\${found[*]}" ]]; then compadd -- "\${found[@]}"; else _files; fi
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
compdef _shoal shoal
(( $+_comps[npx] )) || compdef _shoal npx`,
  fish: (program) => `function _shoal_complete
  set -l at $PWD
  while test -n "$at"; and not test -x "$at/node_modules/.bin/shoal"
    set at (string replace -r '/[^/]*$' '' -- $at)
  end
  if test -n "$at"
    "$at/node_modules/.bin/shoal" complete -- $argv 2>/dev/null
  else
    ${quoted(program)} complete -- $argv 2>/dev/null
  end
end
complete -c shoal -a '(_shoal_complete (commandline -opc)[2..] (commandline -ct))'
complete -c npx -n '__fish_seen_subcommand_from shoal' -a '(_shoal_complete (commandline -opc)[3..] (commandline -ct))'`,
};

/** The function of bash and zsh that calls the program. */
const find = (program: string): string => `_shoal_complete() {
  local at=$PWD
  while [[ -n "$at" && ! -x "$at/node_modules/.bin/shoal" ]]; do at=\${at%/*}; done
  local program=${quoted(program)}
  [[ -z "$at" ]] || program=$at/node_modules/.bin/shoal
  "$program" complete -- "$@" 2>/dev/null
}`;

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

const TAKES_FILE = /^(run|sweep|task|checkpoint (push|pull))( |$)/;

export function runCompletion(this: ShoalContext, _flags: object, shell: Shell): void {
  this.process.stdout.write(`${SCRIPTS[shell](PROGRAM)}\n`);
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
