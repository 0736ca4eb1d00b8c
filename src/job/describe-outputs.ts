/** Formats the outputs of a job for the log: `w = [0.1]`, `y = 100 values of shape [100]`. */

/** Larger outputs are described, not printed. */
const MAX_VALUES = 10;

export function describeOutputs(outputs: Readonly<Record<string, unknown>>): readonly string[] {
  return Object.entries(outputs).map(([name, value]) => {
    const shape = shapeOf(value);
    const count = shape.reduce((product, size) => product * size, 1);
    return count > MAX_VALUES
      ? `${name} = ${count} values of shape [${shape.join(', ')}]`
      : `${name} = ${JSON.stringify(value, plain)}`;
  });
}

const shapeOf = (value: unknown): number[] =>
  Array.isArray(value) ? [value.length, ...(value.length > 0 ? shapeOf(value[0]) : [])] : [];

const plain = (_key: string, value: unknown): unknown => (typeof value === 'bigint' ? Number(value) : value);
