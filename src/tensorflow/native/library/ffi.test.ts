import koffi from 'koffi';
import { expect, it } from 'vitest';
import './ffi.js';

it('gives native code stacks as large as those of threads', () => {
  const { sync_stack_size: sync = 0, async_stack_size: async = 0 } = koffi.config();
  expect(Math.min(sync, async)).toBeGreaterThanOrEqual(8 << 20);
});
