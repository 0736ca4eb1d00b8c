/**
 * The step alarm of a task. The chief raises it on all tasks. It stays raised when another process of the chief takes over:
 * that one asks for it before it uses the values of the ps, goes back to the newest checkpoint, and then ends it.
 */

import * as v from 'valibot';
import {
  describeError,
  firstLineOf,
  isShoalError,
  messageOf,
  type ShoalError,
} from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import { validated } from '../../../distributed/cluster/agent/wire.js';
import { isPresent } from '../../../distributed/cluster/membership/types.js';
import type { ClusterTask } from '../../../distributed/cluster/task/cluster-task.js';
import { StepAlarm, stepFell } from '../recovery/steps/step-alarm.js';

const ORDER = 'train-step-fell';
const ASK = 'train-step-alarm';
const CLEAR = 'train-step-alarm-clear';
const ORDER_MS = 5000;
const ASK_MS = 2000;
const Answer = v.object({ isRaised: v.boolean() });
const Alarm = v.object({ message: v.pipe(v.string(), v.maxLength(2000)) });

export class SharedStepAlarm extends StepAlarm implements Disposable {
  readonly #stop: () => void;
  readonly #task: ClusterTask;
  readonly #log: Log;

  constructor(task: ClusterTask, log: Log) {
    super();
    this.#task = task;
    this.#log = log;
    task.onOrder(ASK, () => ({ isRaised: this.error !== undefined }));
    task.onOrder(CLEAR, () => {
      if (this.error) log('the chief has gone back to a checkpoint: saves are possible again');
      this.clear();
      return null;
    });
    task.onOrder(ORDER, (payload) => {
      if (this.error) return null;
      const error = this.raise(stepFell(validated(Alarm, payload, 'order').message));
      log(`the chief has stopped all saves: ${describeError(error)}`);
      return null;
    });
    this.#stop = task.events.on('*', (event) => {
      if (event.type !== 'lost' && event.type !== 'left' && event.type !== 'back') return;
      const { task: other } = event.member;
      const isReplaced = event.type === 'back' && event.replaced;
      const verb = event.type === 'back' ? (isReplaced ? 'was replaced' : 'came back') : `was ${event.type}`;
      this.note(`${other} ${event.type === 'left' ? 'left' : verb}`);
    });
    this.onRaised((error) => {
      if (task.chief === task.task) void this.#report(task, error, log);
    });
  }

  /** Whether a task that answers knows of an alarm of the former chief. */
  async isRaisedElsewhere(): Promise<boolean> {
    const answers = await Promise.allSettled(
      this.#others().map(async (member) => {
        const answer = await this.#task.order(member.task, ASK, null, { timeoutMs: ASK_MS, again: true });
        return validated(Answer, answer, 'answer').isRaised;
      }),
    );
    return answers.some((answer) => answer.status === 'fulfilled' && answer.value);
  }

  /** Ends the alarm on the other tasks. */
  clearElsewhere(): void {
    for (const { task } of this.#others())
      this.#task.order(task, CLEAR, null, { timeoutMs: ORDER_MS, again: true }).catch((error: unknown) => {
        if (!isShoalError(error, 'SHOAL_NOT_FOUND'))
          this.#log(`${task} was not informed that training begins again: ${firstLineOf(error)}`);
      });
  }

  #others() {
    return this.#task.members().filter(({ task, status }) => task !== this.#task.task && isPresent(status));
  }

  async #report(task: ClusterTask, error: ShoalError, log: Log): Promise<void> {
    const others = this.#others();
    const payload = { message: messageOf(error) };
    const asked = await Promise.allSettled(
      others.map((member) => task.order(member.task, ORDER, payload, { timeoutMs: ORDER_MS })),
    );
    for (const [i, answer] of asked.entries())
      if (answer.status === 'rejected')
        log(`${others[i]?.task} was not informed that saves have stopped: ${firstLineOf(answer.reason)}`);
  }

  [Symbol.dispose](): void {
    this.#stop();
  }
}
