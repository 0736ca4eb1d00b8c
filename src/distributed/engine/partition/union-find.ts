/** Disjoint sets. */
export class UnionFind<T> {
  readonly #parents = new Map<T, T>();

  find(item: T): T {
    let root = item;
    for (let parent = this.#parents.get(root); parent !== undefined; parent = this.#parents.get(root))
      root = parent;
    for (let at = item; at !== root; ) {
      const next = this.#parents.get(at) as T;
      this.#parents.set(at, root);
      at = next;
    }
    return root;
  }

  join(a: T, b: T): void {
    const [first, second] = [this.find(a), this.find(b)];
    if (first !== second) this.#parents.set(second, first);
  }
}
