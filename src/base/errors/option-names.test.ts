/** Options with a misspelt name are errors: they would be ignored. */
import { describe, expect, it } from 'vitest';
import { tf } from '../../index.js';
import {
  CheckpointSaverHook,
  LoggingTensorHook,
  MonitoredTrainingSession,
  ProfilerHook,
  Saver,
  Scaffold,
  Server,
  StepCounterHook,
  StopAtStepHook,
  SummarySaverHook,
  Supervisor,
} from '../../training/train/index.js';

type Options = Readonly<Record<string, unknown>>;
/** As a program in JavaScript calls it, without the check of the compiler. */
const CASES: readonly (readonly [string, string, (options: Options) => unknown])[] = [
  ['savecheckpointSecs', 'saveCheckpointSecs', (o) => MonitoredTrainingSession(o as object)],
  ['saveModelSec', 'saveModelSecs', (o) => new Supervisor(o as object)],
  ['maxTokeep', 'maxToKeep', (o) => new Saver(o as object)],
  ['initOP', 'initOp', (o) => new Scaffold(o as object)],
  ['jobname', 'jobName', (o) => Server.start(o as object)],
  ['psTask', 'psTasks', (o) => tf.replicaDeviceSetter(o as object)],
  ['lastSteps', 'lastStep', (o) => new StopAtStepHook(o as never)],
  ['saveStep', 'saveSteps', (o) => new CheckpointSaverHook(o as never)],
  ['saveStep', 'saveSteps', (o) => new SummarySaverHook(o as never)],
  ['saveStep', 'saveSteps', (o) => new ProfilerHook(o as never)],
  ['everyNstep', 'everyNSteps', (o) => new StepCounterHook(o as object)],
  ['everyNiters', 'everyNIter', (o) => new LoggingTensorHook(o as never)],
];

describe('an option that does not exist', () => {
  it.each(CASES)('%s is an error that names %s', async (given, meant, build) => {
    const error: unknown = await (async () => build({ [given]: 1 }))().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      code: 'SHOAL_INVALID_ARGUMENT',
      message: expect.stringContaining(`no option '${given}'`),
      hint: expect.stringContaining(`Did you mean '${meant}'?`),
    });
  });
});
