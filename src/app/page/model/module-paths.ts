/** The module of an op: its name scope. What belongs to a variable, such as its initializer, is in the variable's scope. */
const DEEPEST = 6;

export interface ModulePath {
  /** The module and all modules that it is in, the graph first. */
  readonly chain: readonly string[];
  /** The variable that the op is, or belongs to. */
  readonly variable: string | undefined;
}

export class ModulePaths {
  readonly #variables: ReadonlySet<string>;
  readonly #known = new Map<string, ModulePath>();

  constructor(variables: Iterable<string>) {
    this.#variables = new Set(variables);
  }

  of(name: string): ModulePath {
    const known = this.#known.get(name);
    if (known) return known;
    const chain = [''];
    let variable: string | undefined;
    for (let end = name.indexOf('/'); ; end = name.indexOf('/', end + 1)) {
      const prefix = end < 0 ? name : name.slice(0, end);
      if (this.#variables.has(prefix)) variable = prefix;
      if (variable !== undefined || end < 0) break;
      if (chain.length <= DEEPEST) chain.push(prefix);
    }
    const path = { chain, variable };
    this.#known.set(name, path);
    return path;
  }
}

export const parentOf = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf('/')));
