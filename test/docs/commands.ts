/** The commands of `shoal` in the documentation, and whether the command line accepts them. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Application, run } from '@stricli/core';
import { writtenPages } from '../../codegen/docs.js';
import { application } from '../../src/app/cli/application.js';
import { type ShoalContext, splitArguments } from '../../src/app/cli/context.js';
import { context } from '../cli/run-command.js';
import { ROOT } from '../setup/run-setup.js';

export interface DocumentedCommand {
  /** The file and the line of the command. */
  readonly place: string;
  /** The arguments after `shoal`. */
  readonly args: readonly string[];
}

/** Markdown files with commands, in addition to the pages of the documentation. */
function otherPages(): string[] {
  const examples = readdirSync(join(ROOT, 'examples'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('README.md'))
    .map((path) => `examples/${path}`);
  return ['CONTRIBUTING.md', ...examples];
}

/** The commands in the running text, such as `shoal checkpoint ls`. Their arguments may be incomplete. */
export function mentionedCommands(): DocumentedCommand[] {
  return [...writtenPages(), ...otherPages()].flatMap((page) => {
    const text = readFileSync(join(ROOT, page), 'utf8').replace(/^```[\s\S]*?^```$/gm, '');
    const found = [...text.matchAll(/`(?:npx |npm run )?shoal (?:-- )?([a-z][^`]*)`/g)];
    return found.map(([, command = '']) => ({ place: page, args: words(command) }));
  });
}

/** The commands in the code blocks of all pages. */
export function documentedCommands(): DocumentedCommand[] {
  return [...writtenPages(), ...otherPages()].flatMap((page) => {
    const text = readFileSync(join(ROOT, page), 'utf8');
    return [...text.matchAll(/^```(sh|ini|yaml)\n([\s\S]*?)^```$/gm)].flatMap(({ index, 2: block = '' }) => {
      const first = text.slice(0, index).split('\n').length + 1;
      // A line that ends with a backslash continues; the lines keep their count.
      const lines = block.replace(/\\\n/g, '  ').split('\n');
      return lines.flatMap((line, at) => commandsIn(line, `${page}:${first + at}`));
    });
  });
}

const COMMAND = /(?:^|[\s"'/])(?:npx shoal|shoal|\$SHOAL|npm run shoal --) +(.*)$/;
/** The form of a command in YAML. */
const LIST = /\["node_modules\/\.bin\/shoal", (.*)\]/;

function commandsIn(line: string, place: string): DocumentedCommand[] {
  const list = LIST.exec(line)?.[1];
  if (list) return [{ place, args: JSON.parse(`[${list}]`) as string[] }];
  if (/^\s*(#|[A-Z]\w*=\S*$|Description=)/.test(line)) return [];
  const text = COMMAND.exec(line)?.[1];
  return text === undefined ? [] : [{ place, args: words(text) }];
}

/**
 * Splits a line as a shell does: quotes, comments, ends of commands. A quote without its counterpart is ignored: the
 * command is an argument of another one, such as ssh.
 */
function words(text: string): string[] {
  const found: string[] = [];
  for (const [word] of text.matchAll(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g)) {
    if (/^(#|&&?$|\|\|?$|;)/.test(word)) break;
    found.push(word.replace(/"([^"]*)"|'([^']*)'/g, '$1$2'));
  }
  return found;
}

/** What the command line reports about wrong arguments; empty if it accepts them. The command does not run. */
export async function complaints(args: readonly string[]): Promise<string> {
  const { own, rest } = splitArguments(args);
  const { output, given } = context(rest);
  await run(withoutActions(application), own, given);
  return output.stderr;
}

function withoutActions(app: Application<ShoalContext>): Application<ShoalContext> {
  return { ...app, root: inert(app.root) };
}

type Target = Application<ShoalContext>['root'];

/** A copy of a command tree whose commands do nothing. */
function inert<T extends Target>(target: T): T {
  if ('loader' in target) return { ...target, loader: async () => () => undefined };
  return {
    ...target,
    getRoutingTargetForInput: (input: string) => {
      const found = target.getRoutingTargetForInput(input);
      return found && inert(found);
    },
  };
}
