/** The caller's side of a connection to another task. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { Graph } from '../../../tensorflow/graph/graph.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { StageHost } from '../host/stage-host.js';
import { partition } from '../partition/partition.js';
import type { Stage } from '../partition/plan.js';
import type { StageEnded } from '../run-plan.js';
import { PLACEMENT } from '../testing/hosts.js';
import { SocketPairs } from '../testing/socket-pair.js';
import { WIRE_LIMITS } from '../wire/frame.js';
import { RemoteStages } from './remote-stages.js';
import { StageService } from './stage-service.js';

const TASK = '/job:ps/task:0';

let pairs: SocketPairs;
let host: StageHost;
let stages: RemoteStages;
beforeAll(async () => {
  pairs = await SocketPairs.listen();
});
afterAll(() => pairs.close());
beforeEach(async () => {
  host = new StageHost({ task: TASK });
  const { client, server } = await pairs.pair();
  new StageService(server, { host, label: '/job:worker/task:1' });
  stages = new RemoteStages(client, { task: TASK, label: TASK });
});
afterEach(async () => {
  stages.close();
  await host.close();
});

/** A stage that negates its input; a long name makes its registration too large. */
function negation(name: string): Stage {
  const graph = new Graph();
  const { x, y } = graph.asDefault(() =>
    graph.device(TASK, () => {
      const x = raw.placeholder({ dtype: 'float32', shape: [null] });
      return { x, y: raw.neg(x, { name }) };
    }),
  );
  return partition(graph, { fetches: [y], targets: [], feeds: [x] }, PLACEMENT).stages[0] as Stage;
}

const run = (stage: Stage, value: number): Promise<unknown> =>
  new Promise((resolve, reject) => {
    const done: StageEnded = (error, [output]) => (error ? reject(error) : resolve(output?.toArray()));
    stages.start(stage, [Tensor.of([value], { dtype: 'float32' })], 10_000, done, 0);
  });

it('a stage whose registration cannot be encoded fails its runs only', async () => {
  const tooLarge = negation('n'.repeat(WIRE_LIMITS.maxHeadBytes));
  for (let i = 0; i < 2; i++) {
    await expect(run(tooLarge, 1)).rejects.toMatchObject({ code: 'SHOAL_INVALID_ARGUMENT' });
  }
  expect(await run(negation('a'), 2)).toEqual([-2]);
  expect(await run(negation('b'), 3)).toEqual([-3]);
  expect(stages.closed).toBe(false);
});
