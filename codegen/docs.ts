/**
 * Fills the code blocks of the documentation from files that tests execute. The block after `<!-- code: FILE -->` shows
 * that file without its head comment, the block after `<!-- code: FILE#NAME -->` the lines between `#region NAME` and
 * `#endregion`, without their common indentation. The table after `<!-- figures: ROW | ROW -->` shows these rows of
 * docs/benchmarks.md.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { basename, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { GeneratedFolder } from './output.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

const LANGUAGES: Readonly<Record<string, string>> = {
  '.ts': 'ts',
  '.py': 'python',
  '.sh': 'sh',
  '.sbatch': 'sh',
  '.json': 'json',
  '.yaml': 'yaml',
  '.service': 'ini',
};

const BLOCK = /^<!-- code: (\S+?)(?:#([\w-]+))? -->\n(?:```\w*\n[\s\S]*?^```\n)?/gm;

/** The pages that people write: those below docs/ports are generated as a whole. */
export function writtenPages(): string[] {
  const docs = readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.md') && !/^(api|ports)\//.test(path))
    .map((path) => `docs/${path}`);
  return ['README.md', ...docs.sort()];
}

const FIGURES = /^<!-- figures: (.*) -->\n(?:\|.*\n)*/gm;
const BENCHMARKS = 'docs/benchmarks.md';

/** The rows of a table of benchmarks.md, without their goals. */
function figures(names: string): string {
  const rows = readPage(BENCHMARKS)
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .map((line) => line.split('|').map((cell) => cell.trim()));
  const chosen = names.split(' | ').map((name) => {
    const row = rows.find(([, first]) => first === name);
    if (!row) throw new Error(`${BENCHMARKS} has no row ${name}`);
    return row.slice(1, 6);
  });
  const lines = [['', 'Shoal', 'Python', 'ratio', 'spread'], Array(5).fill('---'), ...chosen];
  return `<!-- figures: ${names} -->\n${lines.map((cells) => `| ${cells.join(' | ')} |\n`).join('')}`;
}

export interface IncludedCode {
  readonly page: string;
  readonly file: string;
  readonly region: string | undefined;
}

/** The code blocks that show a file. */
export function includedCode(): IncludedCode[] {
  return writtenPages().flatMap((page) =>
    [...readPage(page).matchAll(BLOCK)].map(([, file, region]) => ({ page, file: file as string, region })),
  );
}

export function generateDocs(): GeneratedFolder {
  const files = new Map(writtenPages().map((page) => [page, fill(readPage(page))]));
  return { folder: '.', files, isShared: true };
}

const readPage = (page: string): string => readFileSync(join(ROOT, page), 'utf8');

function fill(page: string): string {
  const withFigures = page.replace(FIGURES, (_, names: string) => figures(names));
  return withFigures.replace(BLOCK, (_, file: string, region: string | undefined) => {
    const marker = `<!-- code: ${file}${region === undefined ? '' : `#${region}`} -->`;
    const language = LANGUAGES[extname(file)];
    if (language === undefined) throw new Error(`${marker}: code of ${basename(file)} has no known language`);
    return `${marker}\n\`\`\`${language}\n${codeOf(file, region)}\`\`\`\n`;
  });
}

/** The code of a file, or of a region of it, with a line break at its end. */
export function codeOf(file: string, region?: string): string {
  const text = readFileSync(join(ROOT, file), 'utf8');
  const lines = region === undefined ? text.split('\n') : regionOf(text, region, file);
  const code = lines.filter((line) => !/^\s*(\/\/|#) #(end)?region\b/.test(line)).join('\n');
  return `${dedent(code.replace(/^\/\*\*[\s\S]*?\*\/\n+/, '')).trim()}\n`;
}

function regionOf(text: string, region: string, file: string): string[] {
  const lines = text.split('\n');
  const start = lines.findIndex((line) => line.trim().endsWith(` #region ${region}`));
  const end = lines.findIndex((line, at) => at > start && line.trim().endsWith(' #endregion'));
  if (start < 0 || end < 0) throw new Error(`${file} has no region ${region}`);
  return lines.slice(start + 1, end);
}

/** Removes the indentation that all lines share. */
export function dedent(code: string): string {
  const lines = code.split('\n');
  const indents = lines.filter((line) => line.trim() !== '').map((line) => /^ */.exec(line)![0].length);
  const common = Math.min(...indents);
  return lines.map((line) => line.slice(common)).join('\n');
}
