import fc from 'fast-check';
import { expect, test } from 'vitest';
import { LineSplitter } from './lines.js';

test('lines are complete however the bytes are split into chunks', () => {
  const line = fc.string({ unit: 'grapheme' }).map((text) => text.replace(/[\r\n]/g, ''));
  fc.assert(
    fc.property(
      fc.array(line, { minLength: 1 }),
      fc.infiniteStream(fc.integer({ min: 1, max: 7 })),
      (lines, sizes) => {
        const taken: string[] = [];
        const splitter = new LineSplitter((one) => taken.push(one));
        const bytes = Buffer.from(lines.map((one) => `${one}\n`).join(''));
        for (let at = 0; at < bytes.length; ) {
          const size = sizes.next().value ?? 1;
          splitter.push(bytes.subarray(at, at + size));
          at += size;
        }
        splitter.end();
        expect(taken).toEqual(lines);
      },
    ),
  );
});

test('text after the last newline is a line', () => {
  const taken: string[] = [];
  const splitter = new LineSplitter((one) => taken.push(one));
  splitter.push(Buffer.from('a\r\nb'));
  splitter.end();
  expect(taken).toEqual(['a', 'b']);
});

test('a line longer than the limit is split', () => {
  const taken: string[] = [];
  const splitter = new LineSplitter((one) => taken.push(one));
  for (let i = 0; i < 3; i++) splitter.push(Buffer.alloc(1 << 20, 'x'));
  expect(taken.map(({ length }) => length)).toEqual([1 << 20, 1 << 20]);
});
