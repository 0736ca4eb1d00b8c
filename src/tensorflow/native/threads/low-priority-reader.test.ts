import { mkdtemp, open, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test, vi } from 'vitest';
import { Tensor } from '../../tensor/tensor.js';
import { LowPriorityReader } from './low-priority-reader.js';

const root = await mkdtemp(join(tmpdir(), 'shoal-reader-'));
afterAll(() => rm(root, { recursive: true, force: true }));

/** How many threads of this process have a lower priority than others. */
async function lowThreads(): Promise<number> {
  const stats = (await readdir('/proc/self/task')).map((id) =>
    readFile(`/proc/self/task/${id}/stat`, 'utf8').catch(() => ''),
  );
  // The priority is the 17th field after the name, which may contain spaces.
  return (await Promise.all(stats)).filter((stat) => Number(stat.split(') ').at(-1)?.split(' ')[16]) > 0)
    .length;
}

test.runIf(process.platform === 'linux')('reads into native memory on a thread of low priority', async () => {
  const path = join(root, 'numbers');
  const numbers = Float32Array.from({ length: 100_000 }, (_, i) => i);
  await writeFile(path, numbers);
  await using file = await open(path);
  const reader = LowPriorityReader.start() as LowPriorityReader;
  const tensor = Tensor.allocate([numbers.length], 'float32');
  const { bytes, giveBack } = tensor.lendBytes(0, numbers.byteLength)!;
  const parts = [0, 150_000, 300_000].map((from) =>
    reader.read(file.fd, bytes.subarray(from, Math.min(from + 150_000, numbers.byteLength)), from),
  );
  expect(await Promise.all(parts)).toEqual([150_000, 150_000, 100_000]);
  expect(await lowThreads()).toBe(1);
  expect(await reader.read(file.fd, bytes, numbers.byteLength)).toBe(0);
  await expect(reader.read(-1, bytes, 0)).rejects.toMatchObject({ code: 'SHOAL_INTERNAL' });
  expect(reader.read(file.fd, new Uint8Array(10), 0)).toBeUndefined();
  giveBack();
  expect(tensor.data).toEqual(numbers);
  reader.close();
  await vi.waitFor(async () => expect(await lowThreads()).toBe(0), 20_000);
  await expect(reader.read(file.fd, tensor.lendBytes(0, 8)!.bytes, 0)).rejects.toMatchObject({
    code: 'SHOAL_INTERNAL',
  });
});
