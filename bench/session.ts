/** Runs of small graphs in one process, cold start, and resident memory. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { type Benchmark, compare, oraclePython, Peer, ROOT } from './harness.js';

const ROUNDS = 7;
const SECONDS = 0.7;

// One at a time Python's call blocks its thread: its counterpart is runSync. What await costs is shown beside it.
const CASES = [
  { id: 'trivial', row: 'trivial run', goal: 1.5 },
  { id: 'trivial-awaited', row: 'trivial run, awaited', goal: undefined },
  { id: 'trivial-parallel', row: 'trivial run, 4 in flight', goal: 1.5 },
  { id: 'megabyte', row: '1 MB feed and fetch', goal: 1.5 },
  { id: 'megabyte-awaited', row: '1 MB feed and fetch, awaited', goal: undefined },
  { id: 'megabyte-parallel', row: '1 MB feed and fetch, 4 in flight', goal: 1.5 },
];

export const benchmark: Benchmark = {
  name: 'session',
  about: 'runs per second, cold start and memory against tf.compat.v1 in Python',
  async run(report, log) {
    const shoal = Peer.shoal('session.mjs');
    const python = Peer.python('session.py');
    try {
      for (const { id, row, goal } of CASES) {
        const ask = async (peer: Peer): Promise<number> =>
          (await peer.ask<{ value: number }>({ id, seconds: SECONDS })).value;
        await ask(shoal);
        await ask(python);
        const [ours, theirs]: [number[], number[]] = [[], []];
        for (let round = 0; round < ROUNDS; round++) {
          ours.push(await ask(shoal));
          theirs.push(await ask(python));
        }
        report(compare('session', row, 'runs/s', 'higher', ours, theirs, goal));
      }
    } finally {
      await Promise.all([shoal.close(), python.close()]);
    }
    log('cold start: a new process, import, first run');
    const [ours, theirs, ourMemory, theirMemory]: [number[], number[], number[], number[]] = [[], [], [], []];
    for (let round = 0; round < 5; round++) {
      const s = await coldStart(process.execPath, join(ROOT, 'bench/peers/cold-start.mjs'));
      const p = await coldStart(oraclePython(), join(ROOT, 'bench/peers/cold-start.py'));
      // The first round warms the page cache for both.
      if (round === 0) continue;
      ours.push(s.ms);
      theirs.push(p.ms);
      ourMemory.push(s.rss);
      theirMemory.push(p.rss);
    }
    report(compare('session', 'cold start', 'ms', 'lower', ours, theirs, 4));
    report(compare('session', 'resident memory after it', 'MB', 'lower', ourMemory, theirMemory, 1 / 0.75));
  },
};

function coldStart(command: string, script: string): Promise<{ ms: number; rss: number }> {
  const start = performance.now();
  return new Promise((resolve, reject) => {
    const child = spawn(command, [script], { cwd: ROOT, stdio: ['ignore', 'pipe', 'ignore'] });
    let text = '';
    let ms = 0;
    child.stdout.on('data', (chunk: Buffer) => {
      if (text === '') ms = performance.now() - start;
      text += String(chunk);
    });
    child.on('exit', (code) =>
      code === 0 ? resolve({ ms, rss: Number(text) }) : reject(new Error(`${script} exited with ${code}`)),
    );
  });
}
