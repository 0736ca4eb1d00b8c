/**
 * Decides which tensors stay on a task between its stages. Without it the caller would get each output of a stage and
 * send it again to the next stage of the same task. With it a tensor crosses a connection at most once in each direction,
 * and not at all if only stages of its own task use it.
 */

/** An input that the task has kept. */
export interface Present {
  /** Its position among the inputs. */
  readonly at: number;
  /** The number of the tensor in the plan. */
  readonly tensor: number;
}

/** A tensor that a task keeps after a stage, for later stages of the same run. */
export interface Kept extends Present {
  /** Its position among the inputs, and behind them the outputs, of the stage. */
  readonly at: number;
  /** How many later stages use it; the task frees it after the last one. */
  readonly uses: number;
}

export interface Keeping {
  /** The inputs that the task has already. */
  readonly present: readonly Present[];
  readonly keeps: readonly Kept[];
  /** The positions of the outputs that the caller does not get: only the task itself needs them. */
  readonly withheld: readonly number[];
}

export const KEEPS_NOTHING: Keeping = { present: [], keeps: [], withheld: [] };

/** Where a stage runs, and the tensors that it takes and makes. */
export interface StageTensors {
  readonly task: string;
  /** The numbers of the input tensors. */
  readonly inputs: readonly number[];
  /** The numbers of the output tensors. */
  readonly outputs: readonly number[];
  /** The stages that must end before this one starts, by position in the plan. */
  readonly after: readonly number[];
}

/** What each stage keeps. The caller has all tensors of its own stages anyway. */
export function keepingOf(
  stages: readonly StageTensors[],
  fetches: readonly number[],
  self: string,
): Keeping[] {
  const makers = new Map(stages.flatMap(({ outputs }, at) => outputs.map((tensor) => [tensor, at] as const)));
  const forCaller = new Set(fetches);
  for (const { task, inputs } of stages)
    for (const tensor of inputs) if (stages[makers.get(tensor) ?? -1]?.task !== task) forCaller.add(tensor);

  const earlier = stagesBefore(stages);
  /** The stage after which a task has a tensor. There is one at most: a task keeps one copy under the number of a tensor. */
  const holders = new Map<string, number>();
  const uses = new Map<string, number>();
  const present = stages.map(({ task, inputs }, at) => {
    if (task === self) return [];
    return inputs.flatMap((tensor, position) => {
      const maker = makers.get(tensor);
      const key = `${task} ${tensor}`;
      const isMade = maker !== undefined && stages[maker]?.task === task;
      const holder = holders.get(key) ?? (isMade ? maker : undefined);
      if (holder === undefined) holders.set(key, at);
      // A stage that may start before the holder has ended gets the tensor as well.
      if (holder === undefined || !earlier[at]?.has(holder)) return [];
      uses.set(`${holder} ${tensor}`, (uses.get(`${holder} ${tensor}`) ?? 0) + 1);
      return [{ at: position, tensor }];
    });
  });
  return stages.map(({ task, inputs, outputs }, at) => {
    if (task === self) return KEEPS_NOTHING;
    return {
      present: present[at] as Present[],
      keeps: [...inputs, ...outputs].flatMap((tensor, position) => {
        const count = uses.get(`${at} ${tensor}`);
        return count === undefined ? [] : [{ at: position, tensor, uses: count }];
      }),
      withheld: outputs.flatMap((tensor, position) => (forCaller.has(tensor) ? [] : [position])),
    };
  });
}

/** The stages that have ended when each stage starts. */
function stagesBefore(stages: readonly Pick<StageTensors, 'after'>[]): ReadonlySet<number>[] {
  const found: Set<number>[] = [];
  for (const { after } of stages)
    found.push(new Set(after.flatMap((one) => [one, ...(found[one] as Set<number>)])));
  return found;
}
