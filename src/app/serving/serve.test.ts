/** The file with the models while the server runs. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { serve } from './serve.js';
import { writeHalfPlus } from './testing/models.js';

let root: string;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'shoal-serve-file-'));
  await writeHalfPlus(join(root, 'half'), 1, 1);
});
afterAll(() => rm(root, { recursive: true, force: true }));

const configOf = (...names: readonly string[]): string =>
  `model_config_list { ${names.map((name) => `config { name: "${name}" base_path: "${join(root, 'half')}" }`).join(' ')} }`;

test('a change of the file while the server starts is not lost', async () => {
  const file = join(root, 'models.config');
  await writeFile(file, configOf('a'));
  let isChanged: Promise<void> | undefined;
  await using serving = await serve({
    modelConfigFile: file,
    modelConfigPollSecs: 0.1,
    restPort: 0,
    grpcPort: false,
    // The first version serves: the file was read, and the server has not started yet.
    log: () => {
      isChanged ??= writeFile(file, configOf('a', 'b'));
    },
  });
  await isChanged;
  await expect.poll(() => Object.keys(serving.status()), { timeout: 20_000 }).toEqual(['a', 'b']);
});
