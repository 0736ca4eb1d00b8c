import { realpathSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { answerOf, moduleUrl } from '../../../../test/child.js';
import { type ElfImage, readOnlyRanges } from './elf.js';
import { withImageFile } from './image-file.js';
import { locateTensorFlow } from './locate.js';

const MIB = 1 << 20;

describe.runIf(process.platform === 'linux')('the pages of the library', () => {
  const { ccPath, frameworkPath } = locateTensorFlow();

  /** Bytes of the read-only mappings of both libraries: resident, and written by the process. */
  const MEASURE = `
    const { readFileSync } = await import('node:fs');
    const paths = ${JSON.stringify([ccPath, frameworkPath].map((path) => realpathSync(path)))};
    function measure() {
      const sum = { resident: 0, written: 0 };
      for (const map of readFileSync('/proc/self/smaps', 'utf8').split(/\\n(?=[0-9a-f]+-[0-9a-f]+ )/)) {
        if (!paths.some((path) => map.split('\\n')[0].endsWith(path)) || !/ r-[x-]p /.test(map)) continue;
        sum.resident += 1024 * Number(/^Rss: +(\\d+)/m.exec(map)[1]);
        sum.written += 1024 * Number(/^Anonymous: +(\\d+)/m.exec(map)[1]);
      }
      return sum;
    }`;

  test('are resident only if they are used after the library was loaded', async () => {
    const { resident, written, value } = await answerOf<Record<string, number>>(`
      const { library } = await import('${moduleUrl('src/tensorflow/native/library/library.ts')}');
      ${MEASURE}
      library();
      const { resident, written } = measure();
      const graph = new Graph();
      const session = Session.open({ graph });
      const value = session.runSync(graph.asDefault(() => tf.add(1, 2))).item();
      await session.close();
      console.log(JSON.stringify({ resident, written, value }));`);
    // Relocated data is read-only too, and stays.
    expect(resident as number).toBeLessThan((written as number) + 32 * MIB);
    expect(written).toBeGreaterThan(MIB);
    expect(value).toBe(3);
  });

  test('are released only where nothing can have written', () => {
    for (const path of [ccPath, frameworkPath]) {
      const ranges = withImageFile(path, readOnlyRanges);
      expect(ranges.length).toBeGreaterThan(0);
      expect(withImageFile(path, (image) => readOnlyRanges(relocatingCode(image)))).toEqual([]);
    }
  });
});

/** The image with the mark of a library whose code the loader relocates, instead of its first dynamic entry. */
function relocatingCode(image: ElfImage): ElfImage {
  const dynamic = dynamicAddress(image);
  return {
    read(address, length) {
      const bytes = Uint8Array.from(image.read(address, length));
      if (address === dynamic) new DataView(bytes.buffer).setBigUint64(0, 22n, true);
      return bytes;
    },
  };
}

function dynamicAddress(image: ElfImage): bigint | undefined {
  const header = new DataView(image.read(0n, 64).buffer);
  const [size, count] = [header.getUint16(54, true), header.getUint16(56, true)];
  const table = new DataView(image.read(header.getBigUint64(32, true), size * count).buffer);
  const at = Array.from({ length: count }, (_, i) => i * size).find((i) => table.getUint32(i, true) === 2);
  return at === undefined ? undefined : table.getBigUint64(at + 16, true);
}
