// Prints how many ms it takes one thread to copy so many MB, in eight pieces, to memory that is fresh, as a snapshot's is.
const bytes = (Number(process.argv[2]) * 2 ** 20) / 8;
const from = Array.from({ length: 8 }, (_, i) => Buffer.allocUnsafeSlow(bytes).fill(i + 1));
const start = performance.now();
const to = from.map((piece) => {
  const copy = Buffer.allocUnsafeSlow(bytes);
  copy.set(piece);
  return copy;
});
console.log(performance.now() - start + 0 * to.length);
