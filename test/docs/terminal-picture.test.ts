/** Pictures of terminal output: what a terminal shows after cursor movements, colors, omitted lines. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { chosenLines, picture, screenLines } from '../../scripts/dev/terminal-picture.mjs';
import { ROOT } from '../setup/run-setup.js';

const texts = (lines: ReturnType<typeof screenLines>) =>
  lines.map((line) => line.map(({ character }) => character).join(''));

test('a progress display leaves its last state', () => {
  const text = 'start\nps 0 starting\nno step\x1b[2K\x1b[1A\x1b[2K\rps 0 alive\nstep 3\r\x1b[Kend';
  expect(texts(screenLines(text))).toEqual(['start', 'ps 0 alive', 'end']);
});

test('colors and special characters are kept', () => {
  const svg = picture(screenLines('a \x1b[31m<b>\x1b[0m & c'), { title: 't', columns: 20 });
  expect(svg).toContain('>a <tspan fill="#ff7b72">&lt;b&gt;</tspan> &amp; c</text>');
});

test('omitted lines are one ellipsis, long lines are cut', () => {
  const lines = chosenLines(screenLines('1\n2\n3\n4\n5'), '1,4-5');
  expect(texts(lines)).toEqual(['1', '⋮', '4', '5']);
  expect(picture(screenLines('abcdef'), { title: 't', columns: 4 })).toContain(
    '>abc<tspan fill="#8b949e">…</tspan><',
  );
});

test('the picture of the README is that of a complete run', () => {
  const svg = readFileSync(join(ROOT, 'docs/npm-start.svg'), 'utf8');
  expect(svg).toContain('kill -9');
  expect(svg).toContain('prediction');
});
