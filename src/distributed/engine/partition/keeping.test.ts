/** In whatever order the stages of a plan run, a task has the tensors that the plan says it has, and frees each. */
import { expect, it } from 'vitest';
import { randomNumbers } from '../testing/random-graph.js';
import { type Keeping, keepingOf } from './keeping.js';
import type { Stage } from './plan.js';

const SELF = '/job:worker/task:0';
const TASKS = [SELF, '/job:ps/task:0', '/job:ps/task:1'];
/** SHOAL_SEEDS=100000 for a longer search. */
const SEEDS = Number(process.env.SHOAL_SEEDS ?? 2000);
const ORDERS = 5;

type Bare = Pick<Stage, 'task' | 'inputs' | 'outputs' | 'after'>;

/** Stages that use tensors of earlier ones; tensor 0 is fed. */
function randomStages(random: (below: number) => number): Bare[] {
  const makers: number[] = [-1];
  return Array.from({ length: 3 + random(8) }, (_, at) => {
    const inputs = makers.map((_, tensor) => tensor).filter(() => random(3) === 0);
    const waits = Array.from({ length: at }, (_, one) => one).filter(() => random(8) === 0);
    const after = new Set([...inputs.map((tensor) => makers[tensor] as number), ...waits]);
    after.delete(-1);
    const outputs = Array.from({ length: random(3) }, () => makers.push(at) - 1);
    return { task: TASKS[random(TASKS.length)] as string, inputs, outputs, after: [...after] };
  });
}

/** Runs the stages in a random order, several at once, and returns how many tensors are left. */
function execute(stages: readonly Bare[], keeping: readonly Keeping[], random: (below: number) => number) {
  const kept = new Map<string, number>();
  const [started, ended] = [new Set<number>(), new Set<number>()];
  const keyOf = (at: number, tensor: number) => `${stages[at]?.task} ${tensor}`;
  const end = (at: number) => {
    const { inputs, outputs } = stages[at] as Bare;
    const { present, keeps } = keeping[at] as Keeping;
    for (const { at: place, tensor, uses } of keeps) {
      expect([...inputs, ...outputs][place]).toBe(tensor);
      expect(kept.has(keyOf(at, tensor)), `stage ${at} keeps tensor ${tensor} once more`).toBe(false);
      kept.set(keyOf(at, tensor), uses);
    }
    for (const { tensor } of present) {
      const left = (kept.get(keyOf(at, tensor)) as number) - 1;
      if (left === 0) kept.delete(keyOf(at, tensor));
      else kept.set(keyOf(at, tensor), left);
    }
    ended.add(at);
  };
  while (ended.size < stages.length) {
    const ready = stages.flatMap(({ after }, at) =>
      !started.has(at) && after.every((one) => ended.has(one)) ? [at] : [],
    );
    const running = [...started].filter((at) => !ended.has(at));
    if (ready.length > 0 && (running.length === 0 || random(2) === 0)) {
      const at = ready[random(ready.length)] as number;
      started.add(at);
      for (const { tensor } of keeping[at]?.present ?? [])
        expect(kept.has(keyOf(at, tensor)), `stage ${at} finds tensor ${tensor}`).toBe(true);
    } else end(running[random(running.length)] as number);
  }
  return kept.size;
}

it('every tensor that a stage expects on its task is there, and is freed after its last use', () => {
  for (let seed = 1; seed <= SEEDS; seed++) {
    const random = randomNumbers(seed * 7919 + 1);
    const stages = randomStages(random);
    const keeping = keepingOf(stages, [], SELF);
    for (let order = 0; order < ORDERS; order++)
      expect([seed, execute(stages, keeping, random)]).toEqual([seed, 0]);
  }
});
