/** The checkpoints that an evaluator evaluates: each is kept meanwhile, and its results are recorded. */
import type { Log } from '../../../base/text/log.js';
import type { Manifest } from '../../../distributed/checkpoint/format/manifest.js';
import { DirectoryStore } from '../../../distributed/store/disk/directory-store.js';
import { CheckpointSource } from '../../../training/train/evaluation/checkpoint-source.js';
import type { Results } from '../../../training/train/evaluation/evaluate.js';
import type { Server } from '../../../training/train/task/server.js';
import type { JobDefinition } from '../definition/define-job.js';
import { blobsIn } from '../directory/task-directory.js';
import { EvaluationLog, evaluationPlace, refOf, sendToChief } from './evaluation-log.js';

export interface EvaluatedCheckpointsOptions {
  readonly server: Server;
  /** The task's own directory. */
  readonly dir: string;
  readonly namespace: string;
  readonly signal: AbortSignal;
  readonly log: Log;
}

export class EvaluatedCheckpoints implements Disposable {
  readonly source: CheckpointSource;
  readonly record: EvaluationLog;
  readonly #options: EvaluatedCheckpointsOptions;
  readonly #pace: EvaluatorPace;
  #restored: Manifest | undefined;

  constructor(job: JobDefinition, options: EvaluatedCheckpointsOptions) {
    const { server, dir, namespace, log } = options;
    this.#options = options;
    this.#pace = new EvaluatorPace(log);
    this.record = new EvaluationLog(job, {
      place: evaluationPlace(job, { server, dir }),
      own: new DirectoryStore(blobsIn(dir)),
      send: sendToChief(server),
      log,
    });
    this.source = new CheckpointSource({
      store: server.checkpoints.store(job.train.checkpoint?.store),
      namespace,
      log,
      onRestore: async (manifest) => {
        this.#restored = manifest;
        this.#pace.begin();
        await this.record.begin(refOf(manifest));
      },
    });
  }

  /** The checkpoint that was restored last is evaluated. */
  async evaluated(step: number, results: Results): Promise<void> {
    const { signal, log } = this.#options;
    const restored = this.#restored;
    if (!restored) return;
    const manifests = await this.source.list(signal).catch(() => []);
    // Without any manifest no task has answered.
    const isKept = manifests.length === 0 || manifests.some(({ attempt }) => attempt === restored.attempt);
    if (isKept) await this.record.add({ step, results, checkpoint: refOf(restored) });
    else
      log(`the checkpoint of step ${step} was removed during its evaluation, which does not count`, 'warn');
    this.#pace.end(step, manifests.filter(({ sequence }) => sequence > restored.sequence).length);
  }

  [Symbol.dispose](): void {
    this.record[Symbol.dispose]();
  }
}

/** Checkpoints that are not evaluated: one warning says that the evaluator is slower than training. */
class EvaluatorPace {
  readonly #log: Log;
  #begun = 0;
  #isWarned = false;

  constructor(log: Log) {
    this.#log = log;
  }

  begin(): void {
    this.#begun = performance.now();
  }

  /** @param newer the number of checkpoints that were saved meanwhile. */
  end(step: number, newer: number): void {
    if (this.#isWarned || newer < 2) return;
    this.#isWarned = true;
    const secs = ((performance.now() - this.#begun) / 1000).toFixed(1);
    this.#log(
      `the evaluation is slower than training: that of step ${step} took ${secs} s, and ${newer} checkpoints were saved meanwhile, of which the newest is evaluated next; decisions are about evaluated steps only`,
      'warn',
    );
  }
}
