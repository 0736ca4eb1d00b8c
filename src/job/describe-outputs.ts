/** The outputs of a job in a line for people: `w = [0.1] · y = 100 values [100]`. */

/** Larger ones are described, not printed. */
const MOST_VALUES = 10;

export function describeOutputs(outputs: Readonly<Record<string, unknown>>): readonly string[] {
  return Object.entries(outputs).map(([name, value]) => {
    const shape = shapeOf(value);
    const count = shape.reduce((product, size) => product * size, 1);
    return count > MOST_VALUES
      ? `${name} = ${count} values of shape [${shape.join(', ')}]`
      : `${name} = ${JSON.stringify(value, plain)}`;
  });
}

const shapeOf = (value: unknown): number[] =>
  Array.isArray(value) ? [value.length, ...(value.length > 0 ? shapeOf(value[0]) : [])] : [];

const plain = (_key: string, value: unknown): unknown => (typeof value === 'bigint' ? Number(value) : value);
