// One task of the cluster benchmark, with the model that the settings name.
import { tf } from 'shoal';
import { MODELS } from './models.mjs';
import { settings, trainTask } from './training-task.mjs';

await trainTask(() => {
  const globalStep = tf.getOrCreateGlobalStep();
  const { loss, optimizer } = MODELS[settings.model]();
  const train = optimizer ? optimizer.minimize(loss, { globalStep }) : globalStep.assignAdd(1);
  return { loss, globalStep, train };
});
