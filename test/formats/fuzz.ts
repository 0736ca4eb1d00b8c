/** Damaged bytes for tests of readers: an arbitrary that makes a few changes to a valid file. */
import fc from 'fast-check';
import { expect } from 'vitest';
import { ShoalError } from '../../src/base/errors/errors.js';

type Edit = {
  readonly kind: 'flip' | 'set' | 'cut' | 'delete' | 'repeat';
  readonly at: number;
  readonly value: number;
};

const edit: fc.Arbitrary<Edit> = fc.record({
  kind: fc.constantFrom('flip', 'set', 'cut', 'delete', 'repeat'),
  at: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
  value: fc.nat(255),
});

function apply(bytes: Uint8Array, { kind, at, value }: Edit): Uint8Array {
  const index = Math.floor(at * bytes.length);
  const changed = Uint8Array.from(bytes);
  if (kind === 'flip') changed[index]! ^= 1 << (value % 8);
  else if (kind === 'set') changed[index] = value;
  else if (kind === 'cut') return changed.subarray(0, index);
  else if (kind === 'delete')
    return Buffer.concat([changed.subarray(0, index), changed.subarray(index + 1 + (value % 16))]);
  else
    return Buffer.concat([
      changed.subarray(0, index),
      changed.subarray(index, index + value),
      changed.subarray(index),
    ]);
  return changed;
}

export function damaged(bytes: Uint8Array): fc.Arbitrary<Uint8Array> {
  return fc.array(edit, { minLength: 1, maxLength: 4 }).map((edits) => edits.reduce(apply, bytes));
}

/** For any input, a reader must return a value or throw a ShoalError about the bytes. */
export function valueOrCodedError(read: () => unknown): void {
  try {
    read();
  } catch (error) {
    expectCoded(error);
  }
}

export function expectCoded(error: unknown): void {
  expect(error).toBeInstanceOf(ShoalError);
  expect((error as ShoalError).code).toMatch(/^SHOAL_(CORRUPT|UNSUPPORTED|VERSION_MISMATCH)$/);
}
