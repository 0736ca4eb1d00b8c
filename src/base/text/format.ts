/** Formats sizes, numbers, times and tables for people. */

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB'] as const;

export function bytes(count: number): string {
  let [value, unit] = [count, 0];
  while (value >= 1000 && unit + 1 < UNITS.length) {
    value /= 1000;
    unit++;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

/** `1,234,567`. Not for steps: they are part of the names of checkpoints. */
export const grouped = (value: number): string => value.toLocaleString('en-US');

/** A date and time in the local time zone. */
export function moment(ms: number): string {
  const date = new Date(ms);
  const two = (value: number) => String(value).padStart(2, '0');
  const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join('-');
  return `${day} ${[date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(':')}`;
}

/** Columns are as wide as their widest cell; numbers are right-aligned. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, i) => Math.max(title.length, ...rows.map((row) => row[i]!.length)));
  const isNumber = head.map(
    (_, i) => rows.length > 0 && rows.every((row) => /^[\d,.]+( [kMGT]?B)?$/.test(row[i]!)),
  );
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, i) => (isNumber[i] ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!)))
      .join('  ')
      .trimEnd();
  return [head, ...rows].map(line).join('\n');
}

/** `1 copy`, `2 copies`. */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}

/** `1 variable was lost`, `2 variables were lost`. */
export const variablesLost = (number: number): string =>
  `${count(number, 'variable was', 'variables were')} lost`;
