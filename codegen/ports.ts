/**
 * Writes docs/ports: programs of TensorFlow 1 next to their ports. Comments such as `# 3. The model` divide a program
 * into parts; both sides have the same numbers and titles, and each row of the page shows one part.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { dedent } from './docs.js';
import type { GeneratedFolder } from './output.js';

interface Port {
  readonly page: string;
  readonly title: string;
  readonly about: string;
  readonly python: readonly string[];
  readonly typescript: readonly string[];
}

export const PORTS: readonly Port[] = [
  {
    page: 'linear-regression.md',
    title: 'Linear regression',
    about: 'A monitored session with hooks and checkpoints, on several ps and workers.',
    python: ['examples/linear-regression/classic.py'],
    typescript: ['examples/linear-regression/classic.ts'],
  },
  {
    page: 'softmax.md',
    title: 'Softmax regression',
    about: 'Feeds, a saver, and an export for serving from within the session.',
    python: ['examples/softmax-export/classic.py'],
    typescript: ['examples/softmax-export/classic.ts', 'examples/softmax-export/model.ts'],
  },
  {
    page: 'sparse-ftrl.md',
    title: 'Sparse FTRL from TFRecord files',
    about:
      'Files through queues, a partitioned variable, a supervisor with a sharded saver, streaming metrics.',
    python: ['examples/sparse-linear/classic.py'],
    typescript: ['examples/sparse-linear/classic.ts', 'examples/sparse-linear/model.ts'],
  },
];

export interface Part {
  readonly title: string;
  readonly code: string;
}

const HEAD = /^\s*(?:\/\/|#) (\d+)\. (.*)$/;

/** The parts of a program by their numbers. Lines before the first part of a file, such as imports, belong to none. */
export function partsOf(files: readonly string[]): Map<number, Part> {
  const parts = new Map<number, Part>();
  for (const file of files) {
    const lines = readFileSync(fileURLToPath(new URL(`../${file}`, import.meta.url)), 'utf8').split('\n');
    let current: { readonly title: string; readonly number: number; readonly lines: string[] } | undefined;
    const end = () => {
      if (current === undefined) return;
      if (parts.has(current.number)) throw new Error(`${file}: there are two parts ${current.number}`);
      const code = dedent(current.lines.join('\n')).replace(/^\n+|\s+$/g, '');
      parts.set(current.number, { title: current.title, code });
    };
    for (const line of lines) {
      const [, number, title] = HEAD.exec(line) ?? [];
      if (number === undefined) current?.lines.push(line);
      else {
        end();
        current = { number: Number(number), title: title as string, lines: [] };
      }
    }
    end();
  }
  return parts;
}

export function generatePorts(): GeneratedFolder {
  const files = new Map(PORTS.map((port) => [port.page, pageOf(port)]));
  return { folder: 'docs/ports', files };
}

function pageOf({ page, title, about, python, typescript }: Port): string {
  const [original, port] = [partsOf(python), partsOf(typescript)];
  const rows = [...original.keys()]
    .sort((a, b) => a - b)
    .map((number) => {
      const [left, right] = [original.get(number), port.get(number)];
      if (left?.title !== right?.title)
        throw new Error(`${page}: part ${number} differs between the programs`);
      return row(number, left as Part, right as Part);
    });
  if (port.size !== original.size) throw new Error(`${page}: the port has other parts than the original`);
  const links = (paths: readonly string[]) => paths.map((path) => `[${path}](../../${path})`).join(', ');
  return `<!-- Written by \`npm run codegen -- ports\` from the programs. -->

# ${title}

${about} Tests run both programs and compare what they save.

- TensorFlow 1: ${links(python)}, for \`tensorflow.compat.v1\`
- Shoal: ${links(typescript)}

<table>
<tr><th>TensorFlow 1</th><th>Shoal</th></tr>
${rows.join('\n')}
</table>
`;
}

function row(number: number, left: Part, right: Part): string {
  const cell = (language: string, code: string) =>
    `<td valign="top">\n\n\`\`\`${language}\n${code}\n\`\`\`\n\n</td>`;
  return `<tr><th colspan="2" align="left">${number}. ${left.title}</th></tr>
<tr>
${cell('python', left.code)}
${cell('ts', right.code)}
</tr>`;
}
