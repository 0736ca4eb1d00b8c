/** Runs of small graphs in one process, cold start, and resident memory. */
import { spawn } from 'node:child_process';
import { type Benchmark, BenchProcess, commandOf, compare, ROOT, type Side } from './harness.js';

const ROUNDS = 7;
const SECONDS = 0.7;

// A call of Python blocks its thread, so its counterpart is runSync; the awaited rows show what `await` costs.
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
    const shoal = new BenchProcess('shoal', 'session');
    const python = new BenchProcess('python', 'session');
    try {
      for (const { id, row, goal } of CASES) {
        const measure = async (side: BenchProcess): Promise<number> =>
          (await side.request<{ value: number }>({ id, seconds: SECONDS })).value;
        await measure(shoal);
        await measure(python);
        const [ours, theirs]: [number[], number[]] = [[], []];
        for (let round = 0; round < ROUNDS; round++) {
          ours.push(await measure(shoal));
          theirs.push(await measure(python));
        }
        report(compare('session', row, 'runs/s', 'higher', ours, theirs, goal));
      }
    } finally {
      await Promise.all([shoal.close(), python.close()]);
    }
    log('cold start: a new process, import, first run');
    const [ours, theirs, ourMemory, theirMemory]: [number[], number[], number[], number[]] = [[], [], [], []];
    for (let round = 0; round < 5; round++) {
      const s = await coldStart('shoal');
      const p = await coldStart('python');
      // The first round warms the page cache for both.
      if (round === 0) continue;
      ours.push(s.ms);
      theirs.push(p.ms);
      ourMemory.push(s.rss);
      theirMemory.push(p.rss);
    }
    report(compare('session', 'cold start', 'ms', 'lower', ours, theirs, 4));
    report(
      compare(
        'session',
        'resident memory after the cold start',
        'MB',
        'lower',
        ourMemory,
        theirMemory,
        1 / 0.75,
      ),
    );
  },
};

function coldStart(side: Side): Promise<{ ms: number; rss: number }> {
  const [command, file] = commandOf(side, 'cold-start');
  const start = performance.now();
  return new Promise((resolve, reject) => {
    const child = spawn(command, [file], { cwd: ROOT, stdio: ['ignore', 'pipe', 'ignore'] });
    let text = '';
    let ms = 0;
    child.stdout.on('data', (chunk: Buffer) => {
      if (text === '') ms = performance.now() - start;
      text += String(chunk);
    });
    child.on('exit', (code) =>
      code === 0 ? resolve({ ms, rss: Number(text) }) : reject(new Error(`${file} exited with ${code}`)),
    );
  });
}
