/**
 * docs/benchmarks.md: a section for each benchmark with its last results, the machine and the date. `npm run bench --
 * NAME --write` replaces the section of that benchmark and leaves the others.
 */
import { cpus, loadavg, release, totalmem } from 'node:os';
import type { Row, Table } from './harness.js';

/** Where and when a benchmark was run. */
export interface Circumstances {
  readonly date: string;
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGB: number;
  readonly system: string;
  readonly node: string;
  readonly tensorflow: string;
  /** The number of processes that wanted to run in the minute before; other work makes results unreliable. */
  readonly load: number;
}

export interface Section {
  readonly name: string;
  readonly about: string;
  /** Default: the benchmark has no results yet. */
  readonly results?: {
    readonly rows: readonly Row[];
    /** Default: none. */
    readonly tables?: readonly Table[];
    readonly circumstances: Circumstances;
  };
}

export function circumstancesNow(tensorflow: string): Circumstances {
  const processors = cpus();
  return {
    date: new Date().toISOString().slice(0, 10),
    cpu: processors[0]?.model.trim() ?? 'unknown',
    cores: processors.length,
    memoryGB: Math.round(totalmem() / 1e9),
    system: `${process.platform}-${process.arch}, kernel ${release()}`,
    node: process.versions.node,
    tensorflow,
    load: loadavg()[0] as number,
  };
}

const HEAD = `# Benchmarks

Each benchmark compares Shoal with a baseline, usually Python TensorFlow, in one run: the two alternate, so that noise of the
machine affects both. A row has the medians of both sides, the median ratio, and the smallest and the largest ratio of single
rounds. A ratio above 1 means that Shoal is better.

\`npm run bench -- NAME --write\` runs a benchmark and replaces its section. The sections may be of different machines and dates.
`;

/** The page with the given sections, each replacing the one of the same name. `all`: the order of all sections. */
export function updatedPage(page: string, sections: readonly Section[], all: readonly Section[]): string {
  const texts = all.map((section) => {
    const changed = sections.find(({ name }) => name === section.name);
    return changed ? sectionText(changed) : (sectionIn(page, section.name) ?? sectionText(section));
  });
  return [HEAD, ...texts].join('\n');
}

const startOf = (name: string): string => `<!-- bench: ${name} -->\n`;
const END = '<!-- /bench -->\n';

function sectionIn(page: string, name: string): string | undefined {
  const start = page.indexOf(startOf(name));
  const end = page.indexOf(END, start);
  return start < 0 || end < 0 ? undefined : page.slice(start, end + END.length);
}

function sectionText({ name, about, results }: Section): string {
  const content = results
    ? [described(results.circumstances), table(results.rows), ...(results.tables ?? []).map(plainTable)].join(
        '\n\n',
      )
    : `No results yet: \`npm run bench -- ${name} --write\`.`;
  return `${startOf(name)}## ${name}\n\n${capitalized(about)}.\n\n${content}\n${END}`;
}

const capitalized = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** For a run beside other work on the machine. */
const BUSY = '\n\n**The machine was busy: only rows with a narrow spread are meaningful.**';

function described({ date, cpu, cores, memoryGB, system, node, tensorflow, load }: Circumstances): string {
  return (
    `${date}; ${cpu}, ${cores} cores, ${memoryGB} GB; ${system}; Node ${node}; TensorFlow ${tensorflow}; ` +
    `load before the run ${load.toFixed(1)}.${load > cores ? BUSY : ''}`
  );
}

function table(rows: readonly Row[]): string {
  const lines = rows.map(({ row, unit, shoal, baseline, baselineName = 'python', ratio, spread, goal }) =>
    [
      '',
      row,
      `${show(shoal)} ${unit}`,
      `${show(baseline)} ${unit}${baselineName === 'python' ? '' : ` (${baselineName})`}`,
      ratio.toFixed(2),
      spread.map((one) => one.toFixed(2)).join(' to '),
      goal === undefined ? '' : Number(goal.toFixed(2)),
      '',
    ]
      .join(' | ')
      .trim(),
  );
  return ['| | Shoal | Python | ratio | spread | goal |', '|---|---|---|---|---|---|', ...lines].join('\n');
}

const lineOf = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;

const plainTable = ({ head, lines }: Table): string =>
  [lineOf(head), `|${head.map(() => '---|').join('')}`, ...lines.map(lineOf)].join('\n');

/** A measured value with three significant digits. */
export const show = (value: number): string =>
  value >= 1000 ? Math.round(value).toLocaleString('en') : Number(value.toPrecision(3)).toString();
