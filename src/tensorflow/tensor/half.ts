/** 16-bit floats: IEEE half and bfloat16, as raw words. Rounding is to nearest, ties to even. */

const f32 = new Float32Array(1);
const u32 = new Uint32Array(f32.buffer);

export function halfToNumber(word: number): number {
  const sign = word & 0x8000 ? -1 : 1;
  const exponent = (word >> 10) & 0x1f;
  const fraction = word & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 0x1f) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

export function numberToHalf(value: number): number {
  if (Number.isNaN(value)) return 0x7e00;
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const size = Math.abs(value);
  if (size >= 65520) return sign | 0x7c00;
  // Below 2^-14 halves are multiples of 2^-24; above, of 2^(exponent - 10).
  const exponent = size < 2 ** -14 ? -14 : Math.floor(Math.log2(size));
  const steps = roundToEven(size / 2 ** (exponent - 10));
  // `steps` starts at zero in the subnormal range and may round up into the next exponent: addition handles both.
  return sign | (size < 2 ** -14 ? steps : ((exponent + 15) << 10) + (steps - 1024));
}

export function bfloat16ToNumber(word: number): number {
  u32[0] = word << 16;
  return f32[0] as number;
}

export function numberToBfloat16(value: number): number {
  if (Number.isNaN(value)) return 0x7fc0;
  f32[0] = value;
  const bits = u32[0] as number;
  const lower = bits & 0xffff;
  const upper = bits >>> 16;
  const up = lower > 0x8000 || (lower === 0x8000 && (upper & 1) === 1);
  return (upper + (up ? 1 : 0)) & 0xffff;
}

function roundToEven(x: number): number {
  const floor = Math.floor(x);
  const rest = x - floor;
  if (rest < 0.5) return floor;
  if (rest > 0.5) return floor + 1;
  return floor % 2 === 0 ? floor : floor + 1;
}
