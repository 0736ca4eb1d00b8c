import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { play } from '../testing/lifecycle-transcript.js';

const folder = fileURLToPath(new URL('../testing/lifecycle/', import.meta.url));

describe('lifecycle transcripts', () => {
  it.each(readdirSync(folder))('%s', async (name) => {
    await expect(play(readFileSync(folder + name, 'utf8'))).toMatchFileSnapshot(folder + name);
  });
});
