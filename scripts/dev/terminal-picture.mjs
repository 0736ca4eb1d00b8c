/**
 * Draws the output of a terminal as an SVG: `node scripts/dev/terminal-picture.mjs [--title TEXT] [--columns N]
 * [--lines FIRST-LAST,FIRST-LAST…] < capture > picture.svg`. The capture is what a terminal or a file has received from
 * the program. Each gap that --lines leaves is shown as one line with an ellipsis.
 */
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

const FONT = 13;
const CHARACTER = 7.83;
const LINE = 18;
const MARGIN = 16;
const TITLE = 30;
const GREY = '#8b949e';

/** The colors of a terminal, by the number in its escape sequence. */
const COLORS = {
  30: '#6e7681',
  31: '#ff7b72',
  32: '#7ee787',
  33: '#e3b341',
  34: '#79c0ff',
  35: '#d2a8ff',
  36: '#76e3ea',
  37: '#e6edf3',
  90: GREY,
};

// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences begin with one.
const TOKEN = /\x1b\[([0-9;?]*)([A-Za-z])|\x1b\][^\x07]*\x07|[\s\S]/gu;

/**
 * The lines that a terminal shows after it has received the text, each a list of { character, color, isBold }. It knows
 * the movements that progress displays use: up, to a column, to the start of the line, erase the line.
 */
export function screenLines(text) {
  const lines = [[]];
  let [row, column] = [0, 0];
  let style = {};
  const line = () => {
    while (lines.length <= row) lines.push([]);
    return lines[row];
  };
  for (const [token, parameters = '', command] of text.matchAll(TOKEN)) {
    const count = Number(parameters) || 1;
    if (command === 'A') row = Math.max(0, row - count);
    else if (command === 'G') column = count - 1;
    else if (command === 'K') lines[row] = parameters === '2' ? [] : line().slice(0, column);
    else if (command === 'm') style = changedStyle(style, parameters);
    else if (token === '\n') [row, column] = [row + 1, 0];
    else if (token === '\r') column = 0;
    else if (command === undefined && token.length <= 2 && token >= ' ') {
      const target = line();
      while (target.length < column) target.push({ character: ' ' });
      target[column++] = { character: token, ...style };
    }
  }
  return lines;
}

function changedStyle(style, parameters) {
  let { color, isBold } = style;
  for (const code of (parameters || '0').split(';').map(Number)) {
    if (code === 0) [color, isBold] = [undefined, false];
    else if (code === 1) isBold = true;
    else if (code === 2) color = GREY;
    else if (code === 22) isBold = false;
    else if (code === 39) color = undefined;
    else color = COLORS[code] ?? color;
  }
  return { color, isBold };
}

/** Keeps some lines, counted from 1; every gap becomes one line. */
export function chosenLines(lines, ranges) {
  if (ranges === undefined) return lines;
  return ranges.split(',').flatMap((range, i) => {
    const [first, last = first] = range.split('-').map(Number);
    const isGap = i > 0 || lines.slice(0, first - 1).some((line) => line.length > 0);
    const gap = isGap ? [[{ character: '⋮', color: GREY }]] : [];
    return [...gap, ...lines.slice(first - 1, last)];
  });
}

const escaped = (text) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');

/** The text of a line, cut at the width of the terminal. */
function spans(line, columns) {
  const cells =
    line.length > columns ? [...line.slice(0, columns - 1), { character: '…', color: GREY }] : line;
  const groups = [];
  for (const { character, color, isBold } of cells) {
    const style = `${color ? ` fill="${color}"` : ''}${isBold ? ' font-weight="bold"' : ''}`;
    const last = groups.at(-1);
    if (last?.style === style) last.text += character;
    else groups.push({ style, text: character });
  }
  return groups
    .map(({ style, text }) => (style === '' ? escaped(text) : `<tspan${style}>${escaped(text)}</tspan>`))
    .join('');
}

export function picture(lines, { title, columns }) {
  const width = Math.ceil(columns * CHARACTER + 2 * MARGIN);
  const height = TITLE + lines.length * LINE + MARGIN;
  const rows = lines.map((line, i) => {
    const content = spans(line, columns);
    return content === '' ? '' : `<text x="${MARGIN}" y="${TITLE + (i + 1) * LINE - 4}">${content}</text>\n`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="${escaped(title)}">
<rect width="${width}" height="${height}" rx="8" fill="#0d1117"/>
<g fill="#e6edf3" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="${FONT}" xml:space="preserve">
<text x="${MARGIN}" y="20" fill="${GREY}">$ ${escaped(title)}</text>
${rows.join('')}</g>
</svg>
`;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { values } = parseArgs({
    options: {
      title: { type: 'string', default: 'npm start' },
      columns: { type: 'string', default: '120' },
      lines: { type: 'string' },
    },
  });
  const lines = screenLines(readFileSync(0, 'utf8').trimEnd());
  process.stdout.write(
    picture(chosenLines(lines, values.lines), { title: values.title, columns: Number(values.columns) }),
  );
}
