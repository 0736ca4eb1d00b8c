/** Scenario 001's job, observed, for the soak: frequent progress lines and as many checkpoints as the other lab jobs. */
import job from '../../examples/sparse-linear/job.js';
import { observed } from './observe.js';

const { train } = job;

export default observed({
  ...job,
  train: { ...train, logEverySecs: 0.2, checkpoint: { ...train.checkpoint, keep: 3 } },
});
