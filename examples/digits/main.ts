/** Trains both digit classifiers, exports them, and uses an export: `npx tsx examples/digits/main.ts`. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Tensor } from 'shoal';
import { loadSavedModel } from 'shoal/saved-model';
import { loadDigits, PIXELS } from './data.js';
import { drawDigit } from './draw.js';
import { type TrainOptions, type TrainResult, trainConvnet, trainSoftmax } from './train.js';

const digits = loadDigits();
console.log(`${digits.train.count} digits to train with, ${digits.heldOut.count} held out`);

const stop = new AbortController();
process.once('SIGINT', () => stop.abort());

async function show(name: string, run: (options: TrainOptions) => Promise<TrainResult>): Promise<void> {
  if (stop.signal.aborted) return;
  const { accuracy } = await run({
    steps: 420,
    signal: stop.signal,
    exportDir: join(exports, name, '1'),
    onStep: (step, loss) => {
      if (step % 70 === 0) console.log(`${name}  step ${String(step).padStart(3)}  loss ${loss.toFixed(3)}`);
    },
  });
  console.log(`${name}  accuracy ${(accuracy * 100).toFixed(1)} % on held-out digits\n`);
}

/** Classifies the first held-out digits with an export. */
async function classify(name: string): Promise<void> {
  if (stop.signal.aborted) return;
  const { images, labels } = digits.heldOut;
  const shown = [0, 1, 2];
  const model = await loadSavedModel(join(exports, name, '1'));
  const { scores } = await model.signatures.serving_default!({
    images: shown.map((i) => Array.from(images.subarray(i * PIXELS, (i + 1) * PIXELS))),
  });
  await model.close();
  const rows = (scores as Tensor).toArray() as number[][];
  for (const [i, row] of rows.entries()) {
    console.log(drawDigit(images.subarray(i * PIXELS, (i + 1) * PIXELS)));
    const best = Math.max(...row);
    console.log(
      `the ${name} export predicts ${row.indexOf(best)} (${(best * 100).toFixed(0)} %); the label is ${labels[i]}\n`,
    );
  }
}

const exports = mkdtempSync(join(tmpdir(), 'shoal-digits-'));
await show('softmax', (options) => trainSoftmax(digits, options));
await show('convnet', (options) => trainConvnet(digits, options));
await classify('convnet');
rmSync(exports, { recursive: true, force: true });
