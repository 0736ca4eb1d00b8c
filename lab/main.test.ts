import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { formatReport, runExperiment } from './experiment.js';

const MAIN = fileURLToPath(new URL('./main.ts', import.meta.url));

interface Run {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function lab(
  args: readonly string[],
  onOutput?: (text: string, kill: (signal: NodeJS.Signals) => void) => void,
) {
  const child = spawn(process.execPath, ['--import', import.meta.resolve('tsx'), MAIN, ...args]);
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (text) => {
    stdout += String(text);
    onOutput?.(stdout, (signal) => child.kill(signal));
  });
  child.stderr.on('data', (text) => {
    stderr += String(text);
  });
  return new Promise<Run>((resolve) => child.once('close', (code) => resolve({ code, stdout, stderr })));
}

describe('npm run lab', () => {
  it('lists the experiments', async () => {
    const { code, stdout } = await lab([]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^ {2}cleanup +a lab leaves nothing/m);
    expect(stdout).toMatch(/^ {2}hosts +hosts have separate networks/m);
  });

  it('shows the flags of an experiment', async () => {
    const { code, stdout } = await lab(['hosts', '--help']);
    expect(code).toBe(0);
    expect(stdout).toMatch(/--hosts VALUE +how many hosts \(3\)/);
  });

  it('refuses an unknown experiment and an unknown flag', async () => {
    expect(await lab(['nothing'])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/no experiment "nothing"/),
    });
    expect(await lab(['hosts', '--bogus'])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/--bogus/),
    });
    expect(await lab(['hosts', '--engine', 'other'])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/--engine must be one of direct, grpc/),
    });
  });

  it('writes one JSON object per line, the summary last', async () => {
    const { code, stdout } = await lab(['hosts', '--json', '--directories']);
    const lines = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines.at(-1)).toMatchObject({ type: 'summary', experiment: 'hosts', held: true, failed: [] });
    expect(lines.filter(({ type }) => type === 'check').length).toBe(lines.at(-1)?.checks);
    expect(code).toBe(0);
  });

  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('cleans up on %s and exits with its code', async (signal, expected) => {
    let sent = false;
    const { code, stdout } = await lab(['hosts'], (text, kill) => {
      if (!sent && text.includes('reads its own file')) {
        sent = true;
        kill(signal);
      }
    });
    const name = /shoal-lab-\S+/.exec(stdout)?.[0];
    expect(name).toBeDefined();
    expect(existsSync(join(tmpdir(), name ?? ''))).toBe(false);
    expect(code).toBe(expected);
  });
});

describe('runExperiment', () => {
  it('continues after a failed check, and fails at the end', async () => {
    const lines: string[] = [];
    const summary = await runExperiment(
      {
        name: 'sample',
        description: '',
        flags: { size: { type: 'string', default: '4', description: '' } },
        async run(ctx) {
          ctx.equal('one', 1, 2);
          ctx.equal('default flag', ctx.flags.size, '4');
          ctx.measure('time', 1.23456, 's');
        },
      },
      { report: (report) => lines.push(formatReport(report)) },
    );
    expect(summary).toMatchObject({ held: false, checks: 2, failed: ['one'] });
    expect(lines.slice(0, 3)).toEqual([
      '  ✗ one (1, expected 2)',
      '  ✓ default flag ("4")',
      '  · time: 1.235 s',
    ]);
    expect(lines[3]).toMatch(/^sample: 1 of 2 checks did not hold in .* s: one$/);
  });

  it('fails when the experiment throws', async () => {
    const run = async () => {
      throw new Error('broken');
    };
    const summary = await runExperiment({ name: 'sample', description: '', run }, { report: () => {} });
    expect(summary).toMatchObject({ held: false, failed: ['the experiment ran to its end'] });
  });
});
