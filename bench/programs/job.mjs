// The job of the cluster benchmark, with the model that the settings name. It has as many checkpoints as a
// MonitoredTrainingSession, and trains until it is stopped.
import { defineJob } from 'shoal';
import { MODELS } from './models.mjs';

const { model, inflight } = JSON.parse(process.env.BENCH);

export default defineJob({
  name: model,
  model: MODELS[model],
  train: { lastStep: Number.MAX_SAFE_INTEGER, inflight, checkpoint: { everySecs: 600 } },
});
