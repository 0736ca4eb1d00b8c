/** Trains both models of digits: `npx tsx examples/digits/main.ts`. */
import { loadDigits } from './data.js';
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
    onStep: (step, loss) => {
      if (step % 70 === 0) console.log(`${name}  step ${String(step).padStart(3)}  loss ${loss.toFixed(3)}`);
    },
  });
  console.log(`${name}  right on ${(accuracy * 100).toFixed(1)} % of the held-out digits\n`);
}

await show('softmax', (options) => trainSoftmax(digits, options));
await show('convnet', (options) => trainConvnet(digits, options));
