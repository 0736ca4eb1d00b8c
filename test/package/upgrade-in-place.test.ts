/** A program runs on after an upgrade has replaced the files of the package, and those of the packages that it uses. */
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { ensureSourceBundle } from '../../scripts/dev/source-bundle.mjs';
import { locateTensorFlow } from '../../src/tensorflow/native/library/locate.js';
import { ROOT, startNode } from '../setup/run-setup.js';

const MODULES = ['koffi', '@koromix', '@node-rs', '@peculiar', 'reflect-metadata', 'tsx'];

/** Trains, waits for the upgrade, then does for the first time all that may need another file. */
const PROGRAM = `
import { existsSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { tf } from 'shoal';
const [directory] = process.argv.slice(2);
const x = tf.placeholder({ shape: [null], name: 'x' });
const w = tf.newVariable(0.5, { name: 'w' });
const y = x.mul(w);
const globalStep = tf.train.getOrCreateGlobalStep();
const trainOp = tf.train.sgd(0.1).minimize(y.sub(1).square().sum(), { globalStep });
tf.summary.scalar('w', w);
const queue = tf.train.fifoQueue({ capacity: 20, dtypes: ['float32'], shapes: [[]] });
const [taken] = queue.dequeue();
const filled = queue.enqueueMany([tf.zeros([10])]);
const options = { checkpointDir: directory + '/logs', saveCheckpointSteps: 4, saveSummariesSteps: 2, log: () => {} };
await tf.train.MonitoredTrainingSession(options, async (session) => {
  const step = () => session.run(trainOp, { feeds: [[x, [1, 2]]] });
  await step();
  console.log('trains');
  while (!existsSync(directory + '/upgraded')) await setTimeout(20);
  for (let i = 0; i < 9; i++) await step();
  // More blocking calls than libuv has threads.
  const all = Promise.all(Array.from({ length: 10 }, () => session.run(taken)));
  await setTimeout(100);
  await Promise.all([all, session.run(filled)]);
  await tf.savedModel.simpleSave(session, directory + '/export', { inputs: { x }, outputs: { y } });
});
console.log('ended');
`;

test('a program trains, saves, exports and starts threads after its package was replaced', {
  timeout: 180_000,
}, async () => {
  await ensureSourceBundle(ROOT);
  const scratch = mkdtempSync(join(tmpdir(), 'shoal-upgrade-'));
  try {
    const shoal = join(scratch, 'node_modules/shoal');
    install(join(scratch, 'node_modules'), shoal);
    const program = join(scratch, 'program.mjs');
    writeFileSync(program, PROGRAM);
    const { child, ended, stdout } = startNode([program, scratch], { SHOAL_TF_DIR: locateTensorFlow().dir });
    await expect
      .poll(() => stdout().includes('trains') || child.exitCode !== null, { timeout: 60_000 })
      .toBe(true);
    replace(shoal);
    for (const name of MODULES) rmSync(join(scratch, 'node_modules', name), { recursive: true, force: true });
    writeFileSync(join(scratch, 'upgraded'), '');
    const { code, stderr } = await ended;
    expect(stderr).toBe('');
    expect(code).toBe(0);
    expect(stdout()).toBe('trains\nended\n');
    expect(readFileSync(join(scratch, 'logs/checkpoint'), 'utf8')).toContain('"model.ckpt-10"');
    expect(readdirSync(join(scratch, 'logs')).some((file) => file.includes('tfevents'))).toBe(true);
    expect(existsSync(join(scratch, 'export/saved_model.pb'))).toBe(true);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
});

/** The files of the package and of the packages that are not in its bundle. */
function install(modules: string, shoal: string): void {
  const { files } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { files: string[] };
  for (const file of [
    'package.json',
    ...files.filter((one) => /^(dist\/bundle|scripts|tensorflow)/.test(one)),
  ])
    cpSync(join(ROOT, file), join(shoal, file), { recursive: true });
  for (const name of MODULES) {
    mkdirSync(dirname(join(modules, name)), { recursive: true });
    cpSync(join(ROOT, 'node_modules', name), join(modules, name), { recursive: true });
  }
}

/** Another release: other names of files, and whatever has the same name is not what the program began with. */
function replace(shoal: string): void {
  const bundle = join(shoal, 'dist/bundle');
  for (const file of readdirSync(bundle)) {
    rmSync(join(bundle, file));
    if (!/-[A-Z0-9]{8}\./.test(file)) writeFileSync(join(bundle, file), "throw new Error('loaded late');\n");
  }
  rmSync(join(shoal, 'scripts'), { recursive: true });
  rmSync(join(shoal, 'tensorflow.lock.json'));
}
