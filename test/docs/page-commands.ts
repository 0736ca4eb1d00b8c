/**
 * The commands of the pages as a reader types them, and the rules by which fresh-clone.test.ts runs them. Every command
 * that it leaves out is in LEFT_OUT with its reason; every one that it changes in CHANGED.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../setup/run-setup.js';

/** The pages in the order in which a reader opens them. Those of the guide are one walk: each builds on those before. */
export const WALKS: readonly (readonly string[])[] = [
  ['README.md'],
  [
    'README',
    'first-job',
    'porting',
    'clusters',
    'checkpoints',
    'failover',
    'data',
    'features',
    'export',
    'running',
    'security',
    'troubleshooting',
  ].map((name) => `docs/guide/${name}.md`),
  ['examples/deploy/README.md'],
  ['examples/digits/README.md'],
  ['examples/linear-regression/README.md'],
  ['examples/softmax-export/README.md'],
  ['examples/sparse-linear/README.md'],
  ['examples/wide-deep/README.md'],
  ['lab/README.md'],
  ['CONTRIBUTING.md'],
];

interface Rule {
  readonly match: RegExp;
  /** Default: on all pages. */
  readonly page?: string;
  readonly why: string;
}

/** Commands that do not run. */
export const LEFT_OUT: readonly Rule[] = [
  { match: /^npm test\b|^npm run test:slow/, why: 'runs these tests' },
  { match: /^npm run bench /, why: 'measures for minutes; bench has tests of its own' },
  { match: /^npm run lab -- 000 /, why: 'an experiment of many minutes; lab/main.test.ts runs a short one' },
  { match: /^npm run lab -- hosts --json/, why: 'repeats the command before it' },
  { match: /^npm run lint/, why: 'checks the sources, not what the page says' },
  { match: /^npm run smoke:aarch64/, why: 'installs packages of the system; test/aarch64 has its parts' },
  {
    match: /^npm run codegen/,
    why: 'generates everything for minutes; the tests of codegen compare each part',
  },
  { match: /\b10\.0\.0\.\d/, why: 'names other machines; pages.test.ts parses the command' },
  { match: /--config=cluster\.json/, why: 'the file names other machines' },
  { page: 'docs/guide/clusters.md', match: /^npx shoal task job\.ts$/, why: 'of TF_CONFIG, as before' },
  { match: /^sudo systemctl |^journalctl /, why: 'needs systemd; guide.test.ts checks the unit' },
  { match: /^kubectl /, why: 'needs Kubernetes; guide.test.ts checks the file' },
  { match: /^npx shoal page$/, why: 'needs a cluster that trains; test/page/cluster.test.ts runs it' },
  { match: /^kill -9 PID/, why: 'npm start and test/cli/cluster.test.ts kill tasks' },
];

interface Change extends Rule {
  readonly to: string;
}

/** What is replaced in a command: names that a reader fills in, and sizes for minutes of work. */
export const CHANGED: readonly Change[] = [
  {
    match: /^npx shoal status --watch/,
    why: 'runs in another terminal, while a job trains',
    to: '{ companion && until npx shoal status; do sleep 1; done && companion_ends; }',
  },
  { match: /\bVERSION\b/, why: 'the newest export', to: '$(ls .shoal/line/worker-0/export | tail -1)' },
  { match: /\bSTEP\b/, why: 'the newest checkpoint', to: 'latest' },
  { match: /--records \d+/, why: 'fewer records', to: '--records 4000' },
  { match: /--features 30000000/, why: 'fewer features', to: '--features 10000' },
  { match: /train\*"$/, why: 'as many features as the data has', to: 'train*" --features 10000' },
  { match: /(?<=linear-regression\/job\.ts.*)$/, why: 'fewer steps', to: ' -- --steps 2000' },
  { match: /(?<=linear-regression\/classic\.ts.*?)(?=( &)?$)/, why: 'fewer steps', to: ' --last_step=2000' },
];

/** What a reader has before the commands that follow it, by the command that needs it. */
export const PREPARED: readonly Change[] = [
  {
    match: /logs\/model\.ckpt-500/,
    why: 'a checkpoint of an earlier program',
    to: 'npx shoal run job.ts --dir earlier --last-step 500 && cp -r earlier/worker-0/checkpoints logs',
  },
];

export interface Block {
  readonly page: string;
  /** The line of its first command. */
  readonly line: number;
  readonly commands: readonly string[];
}

/** What a page makes its reader do, in order: run commands, or save a program. */
export type Action = Block | { readonly page: string; readonly file: string };

const PART = /^(?:<!-- code: (\S+?)(#\S+)? -->\n)?```(\w*)\n([\s\S]*?)^```$/gm;

export function actionsOf(page: string): Action[] {
  const text = readFileSync(join(ROOT, page), 'utf8');
  return [...text.matchAll(PART)].flatMap(
    ({ index, 1: file, 2: region, 3: language, 4: code = '' }): Action[] => {
      if (file !== undefined) return file.endsWith('.ts') && region === undefined ? [{ page, file }] : [];
      if (language !== 'sh') return [];
      return [{ page, line: text.slice(0, index).split('\n').length + 1, commands: commandsIn(code) }];
    },
  );
}

function commandsIn(code: string): string[] {
  const lines = code.replace(/\\\n\s*/g, ' ').split('\n');
  return lines.map((line) => line.replace(/(^|\s+)# .*$/, '').trim()).filter((line) => line !== '');
}

const applies = (rule: Rule, page: string, command: string): boolean =>
  (rule.page === undefined || rule.page === page) && rule.match.test(command);

export const isLeftOut = (page: string, command: string): boolean =>
  LEFT_OUT.some((rule) => applies(rule, page, command));

/** The rules that no command needs. */
export function unusedRules(): readonly Rule[] {
  const commands = WALKS.flat().flatMap((page) =>
    actionsOf(page).flatMap((action) =>
      'file' in action ? [] : action.commands.map((one) => [page, one] as const),
    ),
  );
  return [...LEFT_OUT, ...CHANGED, ...PREPARED].filter(
    (rule) => !commands.some(([page, command]) => applies(rule, page, command)),
  );
}

/** The command as the test runs it. */
export function changed(command: string): string {
  return CHANGED.reduce((text, { match, to }) => text.replace(match, () => to), command);
}
