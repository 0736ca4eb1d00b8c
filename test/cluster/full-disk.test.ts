/** The last save finds the disks full: the tasks keep the values until there is space, or until they are stopped. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type ShoalProcess, startShoal } from '../cli/shoal-process.js';

const LONG = { timeout: 600_000 };
const canMount = process.platform === 'linux' && process.getuid?.() === 0;

const JOB = `
  import { existsSync } from 'node:fs';
  import { defineJob, tf } from 'shoal';
  const [full] = process.argv.slice(2);
  export default defineJob({
    name: 'full',
    model() {
      const w = tf.variable('w', { shape: [65536], initializer: tf.zerosInitializer() });
      return { loss: w.square().mean(), optimizer: tf.train.sgd(0.1) };
    },
    train: { lastStep: 1_000_000_000, checkpoint: { everySecs: 3600 } },
    // Ends when the disk is full.
    hooks: () => [{ afterRun: (context) => void (existsSync(full) && context.requestStop()) }],
  });`;

let scratch: string;
let disk: string;
let run: ShoalProcess | undefined;

beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-full-'));
  disk = join(scratch, 'disk');
  mkdirSync(disk);
  if (canMount) execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=16m', 'tmpfs', disk]);
});
afterEach(async () => {
  run?.child.kill('SIGINT');
  run?.child.kill('SIGINT');
  await run?.ended;
  if (canMount) execFileSync('umount', ['-l', disk]);
  rmSync(scratch, { recursive: true, force: true });
});

const ballast = () => join(disk, 'ballast');
const seen = (what: RegExp) => expect.poll(() => run!.output.stdout, { timeout: 240_000 }).toMatch(what);

/** Starts a cluster on the small disk, and lets it end when that is full. */
async function trainUntilFull(): Promise<void> {
  writeFileSync(join(scratch, 'job.ts'), JOB);
  const full = join(scratch, 'full');
  const flags = ['--ps', '1', '--workers', '1', '--dir', disk, '--grace', '120'];
  run = startShoal(['run', 'job.ts', ...flags, '--', full], { cwd: scratch });
  await seen(/worker 0 +│ saved model\.ckpt-\d+/);
  const { bavail, bsize } = statfsSync(disk);
  writeFileSync(ballast(), Buffer.alloc(bavail * bsize - 64 * 1024));
  writeFileSync(full, '');
  await seen(/the last checkpoint, of step \d+, is not saved yet.*the ps keep its values/);
  await seen(/hint: free disk space on \S+:\S+\/disk\//);
}

it.runIf(canMount)('freeing space ends the job well', LONG, async () => {
  await trainUntilFull();
  rmSync(ballast());
  expect(await run!.ended, run!.output.stdout).toBe(0);
  const [, step] = /the last checkpoint, of step (\d+)/.exec(run!.output.stdout)!;
  expect(run!.output.stdout).toMatch(
    new RegExp(`is not saved yet[\\s\\S]*saved model\\.ckpt-${step} [\\s\\S]*done at`),
  );
});

it.runIf(canMount)('Ctrl-C gives up, and reports the loss', LONG, async () => {
  await trainUntilFull();
  run!.child.kill('SIGINT');
  expect(await run!.ended, run!.output.stdout).toBe(130);
  expect(run!.output.stdout).toMatch(/could not be saved.*later steps are lost/);
  expect(run!.output.stdout).not.toContain('done at step');
});
