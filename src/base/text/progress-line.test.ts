import { afterEach, expect, test, vi } from 'vitest';
import { describeBytes, ProgressLine } from './progress-line.js';

afterEach(() => vi.unstubAllEnvs());

test('bytes are described by the fraction, the rate and the time left', () => {
  expect(describeBytes(500_000, 1_000_000, 1000)).toBe(' 50 % · 500 kB of 1.0 MB · 500 kB/s · 1 s left');
  expect(describeBytes(0, 0, 10)).toContain('100 %');
});

test('the line is drawn on a capable terminal only, at a limited rate, and erased at the end', () => {
  let now = 0;
  const drawnOn = (isTTY: boolean, term: string) => {
    vi.stubEnv('TERM', term);
    const written: string[] = [];
    const output = { write: (text: string) => written.push(text), isTTY, columns: 30 };
    const line = new ProgressLine(output, { describe: (done, total) => `${done}/${total}`, now: () => now });
    line.label('x');
    for (now = 0; now < 1000; now += 10) line.update(now, 1000);
    line.note('a line that stays');
    line.end();
    return written;
  };
  expect(drawnOn(false, 'xterm')).toEqual(['a line that stays\n']);
  expect(drawnOn(true, 'dumb')).toEqual(['a line that stays\n']);
  const erase = '\r\x1b[2K';
  const drawn = drawnOn(true, 'xterm');
  expect(drawn.slice(10)).toEqual([erase, 'a line that stays\n', erase]);
  expect(drawn[5]).toBe(`${erase}x ${'█'.repeat(12)}${'░'.repeat(12)} 50`);
  for (const text of drawn) expect(text.replace(erase, '').length).toBeLessThan(30);
});
