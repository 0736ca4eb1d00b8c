import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { differences, type GeneratedFolder, write } from './output.js';
import { generateProtos } from './protos.js';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

describe('the messages of TensorFlow', () => {
  let output: GeneratedFolder;
  beforeAll(() => {
    output = generateProtos();
  });

  test('are in the tree as the generator writes them', () => {
    expect(differences(root, output)).toEqual([]);
  });

  test('contain no comments of the proto files', () => {
    for (const content of output.files.values()) {
      const prose = content
        .split('\n')
        .filter((line) => /^\s*(\*|\/\/|\/\*)/.test(line))
        .filter(
          (line) =>
            !/^\s*(\/\*\*|\*\/|\*)$|@generated|Describes the|Use `create\(|eslint-disable|@deprecated/.test(
              line,
            ),
        );
      expect(prose).toEqual([]);
    }
  });

  test('fit in files below 1 MB', () => {
    for (const content of output.files.values()) expect(content.length).toBeLessThan(1 << 20);
  });
});

describe('a generated folder', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'shoal-codegen-'));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test('is compared file by file, and written to contain exactly the generated files', () => {
    const output = {
      folder: 'generated',
      files: new Map([
        ['a.ts', 'a'],
        ['deep/b.ts', 'b'],
      ]),
    };
    expect(write(folder, output)).toEqual(['generated/a.ts', 'generated/deep/b.ts']);
    expect(differences(folder, output)).toEqual([]);

    writeFileSync(join(folder, 'generated/a.ts'), 'changed');
    writeFileSync(join(folder, 'generated/deep/stray.ts'), '');
    expect(differences(folder, output)).toEqual(['generated/a.ts', 'generated/deep/stray.ts']);
    write(folder, output);
    expect(differences(folder, output)).toEqual([]);
  });
});
