/** Unique names within a graph, by TensorFlow's rule: `MatMul`, `MatMul_1`, … ignoring case. */
import { invalid } from '../../base/errors/errors.js';

const OP_NAME = /^[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$/;

export class NameTable {
  readonly #uses = new Map<string, number>();

  /** A unique name: `name` if it is free, else with the next number. */
  unique(name: string): string {
    const key = name.toLowerCase();
    let count = this.#uses.get(key) ?? 0;
    this.#uses.set(key, count + 1);
    if (count === 0) return name;
    let candidate = key;
    while (this.#uses.has(candidate)) {
      candidate = `${key}_${count}`;
      count += 1;
    }
    this.#uses.set(candidate, 1);
    this.#uses.set(key, count);
    return `${name}_${count - 1}`;
  }

  /** Marks a name and all its scopes as taken. */
  reserve(name: string): void {
    for (let end = name.length; end > 0; end = name.lastIndexOf('/', end - 1)) {
      const key = name.slice(0, end).toLowerCase();
      if (!this.#uses.has(key)) this.#uses.set(key, 1);
    }
  }
}

export function checkOpName(name: string): void {
  if (!OP_NAME.test(name)) {
    throw invalid(`'${name}' is not a valid op name`, {
      hint: 'Names consist of letters, digits and . _ - / > and start with a letter, a digit or a dot.',
    });
  }
}
