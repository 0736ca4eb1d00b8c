/**
 * Combines the crc32c of two parts into that of their concatenation, without reading the data again.
 *
 * A crc is a polynomial over GF(2) modulo P. Appending bytes multiplies the previous crc by x^(8·length) mod P, which
 * takes one product per bit of the length. Bit 31 is x^0 here.
 */
const POLYNOMIAL = 0x82f63b78;
const ONE = 0x80000000;
const X = 0x40000000;

/** The product of two polynomials modulo P. */
function multiply(a: number, b: number): number {
  let product = 0;
  let shifted = b;
  for (let bit = ONE; bit !== 0; bit >>>= 1) {
    if (a & bit) product ^= shifted;
    shifted = shifted & 1 ? (shifted >>> 1) ^ POLYNOMIAL : shifted >>> 1;
  }
  return product >>> 0;
}

/** x^(8·2^k) for each bit k of a length. */
const POWERS: readonly number[] = (() => {
  let power = X;
  for (let i = 0; i < 3; i++) power = multiply(power, power);
  return Array.from({ length: 53 }, () => {
    const current = power;
    power = multiply(power, power);
    return current;
  });
})();

/** The crc32c of `first` followed by `second`, which has `secondLength` bytes. */
export function combineCrc32c(first: number, second: number, secondLength: number): number {
  let shift = ONE;
  for (let left = secondLength, k = 0; left > 0; left = Math.floor(left / 2), k++) {
    if (left % 2 === 1) shift = multiply(shift, POWERS[k]!);
  }
  return (multiply(shift, first) ^ second) >>> 0;
}
