/**
 * Writes TFRecord files like those of click prediction, and a vocabulary: each record is a tf.train.Example with numbers,
 * words, a list of interests with a weight for each, and whether the visitor clicked.
 *
 *   npx tsx examples/wide-deep/generate.ts --out data --records 40000
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { encodeExample, TFRecordWriter } from 'shoal/formats';

const { values } = parseArgs({
  options: {
    out: { type: 'string', default: 'data' },
    records: { type: 'string', default: '40000' },
    files: { type: 'string', default: '4' },
  },
});
const CITIES = Array.from({ length: 200 }, (_, i) => `city-${i}`);
const INTERESTS = Array.from({ length: 300 }, (_, i) => `interest-${i}`);
const OCCUPATIONS = ['student', 'farmer', 'teacher', 'nurse', 'driver', 'retired'];

/** A sequence that is the same in each run: a linear congruential generator. */
let state = 7;
function random(): number {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return state / 2 ** 32;
}
/** One of a list; the first ones are frequent. */
const choose = <T>(list: readonly T[]): T => list[Math.floor(random() ** 2 * list.length)] as T;
/** What a word contributes to the chance of a click. */
const effect = (word: string): number => {
  let hash = 0;
  for (const letter of word) hash = (Math.imul(hash, 31) + letter.charCodeAt(0)) >>> 0;
  return (hash % 1000) / 250 - 2;
};

function record(): Uint8Array {
  const age = 16 + Math.floor(random() * 60);
  const [city, occupation] = [choose(CITIES), choose(OCCUPATIONS)];
  const interests = [...new Set(Array.from({ length: Math.floor(random() * 6) }, () => choose(INTERESTS)))];
  const weights = interests.map(() => 0.2 + random());
  const liked = interests.reduce((sum, word, i) => sum + effect(word) * (weights[i] ?? 0), 0);
  const logit = 0.6 * liked + effect(`${city}${age < 30}`) + 0.5 * effect(occupation) - 0.3;
  return encodeExample({
    age: Float32Array.of(age),
    city: [city],
    occupation: [occupation],
    // A feature without values is left out.
    ...(interests.length > 0 && { interests, interest_weights: Float32Array.from(weights) }),
    clicked: Float32Array.of(random() < 1 / (1 + Math.exp(-logit)) ? 1 : 0),
  });
}

async function write(name: string, records: number): Promise<void> {
  const writer = new TFRecordWriter(join(values.out, name));
  for (let i = 0; i < records; i++) await writer.write(record());
  await writer.close();
}

await mkdir(values.out, { recursive: true });
// The words that the model knows; those of the last interests share a few buckets.
await writeFile(join(values.out, 'interests.txt'), `${INTERESTS.slice(0, 250).join('\n')}\n`);
const perFile = Math.ceil(Number(values.records) / Number(values.files));
for (let i = 0; i < Number(values.files); i++) await write(`train-${i}.tfrecord`, perFile);
await write('valid.tfrecord', Math.ceil(Number(values.records) / 8));
console.log(`${perFile * Number(values.files)} records for training in ${values.out}`);
