import { existsSync, readFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { describe, expect, it } from 'vitest';
import { isShoalError } from '../../src/base/errors/errors.js';
import { described } from '../../test/described.js';
import { loadExperiment, type Report, runExperiment } from '../experiment.js';
import { Lab, type LabMode } from './hosts.js';
import { probe } from './namespace-support.js';
import { isRunning } from './proc.js';

/** The modes that this machine permits. */
const MODES: LabMode[] = ['directories'];
if ((await probe()).kind === 'namespaces') MODES.push('namespaces');
if ((await probe({ userOnly: true })).kind === 'namespaces') MODES.push('user-namespaces');

/** All of them, those without an address too. */
function networkDevices(): string[] {
  if (!existsSync('/proc/net/dev')) return Object.keys(networkInterfaces());
  return readFileSync('/proc/net/dev', 'utf8').match(/^ *[^ :]+(?=:)/gm) ?? [];
}

const warn = () => {};

/** Runs an experiment in a mode and returns the checks that did not hold. */
async function failures(name: string, mode: LabMode): Promise<Report[]> {
  const before = process.env.SHOAL_LAB;
  process.env.SHOAL_LAB = mode;
  try {
    const reports: Report[] = [];
    await runExperiment(await loadExperiment(name), { report: (report) => reports.push(report) });
    expect(reports.filter(({ type }) => type === 'check').length).toBeGreaterThan(3);
    return reports.filter((report) => report.type === 'check' && !report.held);
  } finally {
    if (before === undefined) delete process.env.SHOAL_LAB;
    else process.env.SHOAL_LAB = before;
  }
}

describe.each(MODES)('a lab on %s', (mode) => {
  it('keeps what the experiment "hosts" asserts', async () => {
    expect(await failures('hosts', mode)).toEqual([]);
  }, 180_000);

  it('keeps what the experiment "cleanup" asserts', async () => {
    expect(await failures('cleanup', mode)).toEqual([]);
  }, 180_000);

  it('leaves nothing when it is disposed of', async () => {
    const lab = await Lab.create({ hosts: 2, mode, warn });
    const sleeper = lab.host('h1').start('sh', ['-c', 'echo here; exec sleep 1000']);
    await sleeper.waitFor(/here/);
    const { directory } = lab;
    await lab.dispose();
    await lab.dispose();
    expect(existsSync(directory)).toBe(false);
    expect(await isRunning(sleeper.pid)).toBe(false);
    expect(await isRunning(lab.guardPid)).toBe(false);
    expect(await sleeper.exited).toEqual({ code: null, signal: 'SIGKILL' });
  });

  it('runs beside another lab, and ending one leaves the other alone', async () => {
    await using first = await Lab.create({ hosts: 2, mode, warn });
    const second = await Lab.create({ hosts: 2, mode, warn });
    expect(new Set([...first.hosts, ...second.hosts].map(({ address }) => address)).size).toBe(4);
    const sleeper = first.host(0).start('sleep', ['1000']);
    await first.host(0).writeFile('file', 'first');
    await expect(second.host(0).readFile('file')).rejects.toMatchObject({ code: 'SHOAL_NOT_FOUND' });
    await second.dispose();
    expect(await isRunning(sleeper.pid)).toBe(true);
    expect((await first.host(0).readFile('file')).toString()).toBe('first');
  });

  it('starts a process with the requested directory, environment and input', async () => {
    await using lab = await Lab.create({ hosts: 1, mode, warn });
    const host = lab.host(0);
    await host.writeFile('work/note', 'x');
    const result = await host.exec('sh', ['-c', 'pwd; echo "$COLOUR $SHOAL_LAB_HOST"; cat'], {
      cwd: 'work',
      env: { COLOUR: 'red' },
      input: 'given',
    });
    expect(result).toMatchObject({ code: 0, stdout: `${host.path('work')}\nred h0\ngiven` });
  });

  it('returns the pid of the command itself', async () => {
    await using lab = await Lab.create({ hosts: 1, mode, warn });
    await using started = lab
      .host(0)
      .start(process.execPath, ['-e', 'console.log(process.pid); setInterval(() => {}, 1e3)']);
    expect(Number((await started.waitFor(/\d+\n/))[0])).toBe(started.pid);
  });

  it('shows the last output of a process that ends without the expected output', async () => {
    await using lab = await Lab.create({ hosts: 1, mode, warn });
    const brief = lab.host(0).start('sh', ['-c', 'echo alas; exit 3']);
    await expect(brief.waitFor(/ready/)).rejects.toThrow(described(/ended \(3\).*\n.*alas/));
  });

  it('adds nothing to the network of the machine', async () => {
    const before = networkDevices();
    await using lab = await Lab.create({ hosts: 2, mode, warn });
    expect(lab.isolated).toBe(mode !== 'directories');
    expect(networkDevices()).toEqual(before);
  });

  it('runs nothing once it is disposed of', async () => {
    const lab = await Lab.create({ hosts: 1, mode, warn });
    await lab.dispose();
    const run = async () => (await lab.host(0).exec('true')).code;
    expect(await run().catch((error: unknown) => isShoalError(error, 'SHOAL_DISPOSED'))).not.toBe(0);
  });

  it('kills a command at its timeout', async () => {
    await using lab = await Lab.create({ hosts: 1, mode, warn });
    await expect(lab.host(0).exec('sleep', ['1000'], { timeoutMs: 100 })).rejects.toMatchObject({
      code: 'SHOAL_TIMEOUT',
    });
  });
});

describe('Lab.create', () => {
  it('warns in one line that hosts are directories', async () => {
    const lines: string[] = [];
    await using lab = await Lab.create({ hosts: 1, mode: 'directories', warn: (line) => lines.push(line) });
    expect(lab.isolated).toBe(false);
    expect(lines).toEqual([expect.stringMatching(/^lab: hosts are separate directories .*: requested$/)]);
  });

  it.each([
    [{ hosts: 0 }, /between 1 and 200/],
    [{ hosts: ['a', 'a'] }, /two hosts are named a/],
    [{ hosts: ['a/b'] }, /not a valid host name/],
    [{ hosts: 1, diskBytes: 1 }, /at least 4096/],
    [{ hosts: 1, mode: 'cloud' as LabMode }, /not "cloud"/],
  ])('refuses %j', async (options, message) => {
    await expect(Lab.create(options)).rejects.toThrow(message);
  });
});

describe('probe', () => {
  it('finds no namespaces on other systems', async () => {
    const reason = 'darwin has no network namespaces';
    expect(await probe({ platform: 'darwin' })).toEqual({ kind: 'none', reason });
  });

  it('reports the package to install when a tool is missing', async () => {
    const reason = 'the command ip is missing (apt-get install iproute2)';
    expect(await probe({ platform: 'linux', path: '/nowhere' })).toEqual({ kind: 'none', reason });
  });
});
