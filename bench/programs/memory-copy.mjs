// Prints in how many ms one thread copies the given number of MB, in eight parts, to newly allocated memory.
const bytes = (Number(process.argv[2]) * 2 ** 20) / 8;
const from = Array.from({ length: 8 }, (_, i) => Buffer.allocUnsafeSlow(bytes).fill(i + 1));
const start = performance.now();
const to = from.map((part) => {
  const copy = Buffer.allocUnsafeSlow(bytes);
  copy.set(part);
  return copy;
});
console.log(performance.now() - start + 0 * to.length);
