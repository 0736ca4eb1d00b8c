import { describe, expect, test } from 'vitest';
import { Screen, wantsColour } from './screen.js';

interface Parts {
  readonly isTTY?: boolean;
  readonly isPiped?: boolean;
  readonly columns?: number;
  readonly rows?: number;
  readonly env?: Record<string, string>;
  readonly json?: boolean;
}

function make(parts: Parts = {}) {
  const written: string[] = [];
  const stream = {
    write: (text: string) => written.push(text) > 0,
    isTTY: parts.isTTY,
    columns: parts.columns,
    rows: parts.rows,
  };
  const stdout = parts.isPiped ? { ...stream, isTTY: false } : stream;
  const screen = new Screen({ stdout, stderr: stream, env: parts.env ?? {}, json: parts.json });
  return { screen, written };
}

describe('a screen', () => {
  test('aligns the names of the tasks', () => {
    const { screen, written } = make();
    screen.expect(['ps 0', 'worker 10']);
    screen.line('ps 0', 'hello');
    expect(written).toEqual(['ps 0      │ hello\n']);
  });

  test('erases the status line for a log line and redraws it', () => {
    const { screen, written } = make({ isTTY: true, env: { NO_COLOR: '1' } });
    screen.status(['step 1']);
    screen.line('ps 0', 'hello');
    expect(written).toEqual(['\r\x1b[2Kstep 1', '\r\x1b[2K', 'ps 0 │ hello\n', 'step 1']);
  });

  test('truncates the status line to the width of the terminal', () => {
    const { screen, written } = make({ isTTY: true, columns: 5 });
    screen.status(['step 123456']);
    expect(written).toEqual(['\r\x1b[2Kstep']);
  });

  test('shows the status line on a terminal of unknown width', () => {
    const { screen, written } = make({ isTTY: true, columns: 0 });
    screen.status(['step 1']);
    expect(written).toEqual(['\r\x1b[2Kstep 1']);
  });

  test('erases as many status lines as it has drawn', () => {
    const { screen, written } = make({ isTTY: true, env: { NO_COLOR: '1' } });
    screen.status(['ps 0', 'step 1']);
    screen.line('ps 0', 'hello');
    screen.close();
    const erasure = '\r\x1b[2K\x1b[1A\r\x1b[2K';
    expect(written).toEqual(['\r\x1b[2Kps 0\nstep 1', erasure, 'ps 0 │ hello\n', 'ps 0\nstep 1', erasure]);
  });

  test('shows only the last status line on a terminal with few rows', () => {
    const { screen, written } = make({ isTTY: true, rows: 6 });
    screen.status(['ps 0', 'step 1']);
    expect(written).toEqual(['\r\x1b[2Kstep 1']);
  });

  test('writes JSON lines, and no status, if requested', () => {
    const { screen, written } = make({ isTTY: true, json: true });
    screen.status(['step 1']);
    screen.line('ps 0', 'a "word"');
    expect(written.map((line) => JSON.parse(line))).toEqual([
      {
        event: 'log',
        time: expect.stringMatching(/^\d{4}-.*Z$/),
        level: 'info',
        task: 'ps 0',
        message: 'a "word"',
      },
    ]);
  });

  test('a hint in JSON has the level of its line, also between lines of other tasks', () => {
    const { screen, written } = make({ json: true });
    screen.line('ps 0', 'ERROR SHOAL_CONFIG: no port');
    screen.line('ps 1', 'WARN slow');
    screen.line('ps 0', '  hint: set a port');
    screen.line('ps 0', 'step 1');
    expect(written.map((line) => JSON.parse(line).level)).toEqual(['error', 'warn', 'error', 'info']);
  });

  test('shows no status line if another program writes the log lines to the terminal', () => {
    const { screen, written } = make({ isTTY: true, isPiped: true });
    screen.status(['step 1']);
    expect(written).toEqual([]);
  });

  test('shows no status line without a terminal', () => {
    const { screen, written } = make();
    screen.status(['step 1']);
    screen.close();
    expect(written).toEqual([]);
  });

  test('resets a colour that a task has left on', () => {
    const { screen, written } = make({ isTTY: true });
    screen.line('ps 0', '\x1b[31mred');
    expect(written[0]).toBe('\x1b[36mps 0 │\x1b[0m \x1b[31mred\x1b[0m\n');
  });
});

test.each([
  [{ isTTY: true }, {}, true],
  [{ isTTY: false }, {}, false],
  [{ isTTY: true }, { NO_COLOR: '1' }, false],
  [{ isTTY: false }, { FORCE_COLOR: '1' }, true],
  [{ isTTY: true }, { TERM: 'dumb' }, false],
])('colours for %o in %o: %s', (stream, env, expected) => {
  expect(wantsColour({ write: () => true, ...stream }, env)).toBe(expected);
});
