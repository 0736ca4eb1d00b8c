/** Checks whether TensorFlow will use oneDNN, from the environment, without loading the library. */
import { ONEDNN_VARIABLE, oneDnnSetting } from '../../../tensorflow/native/library/onednn.js';
import { type Finding, ok, warning } from './finding.js';

const NAME = 'oneDNN';
const NO_KERNELS = 'channels first and gradients of dilated convolutions have no CPU kernels';

export function checkOneDnn(
  env: Readonly<NodeJS.ProcessEnv>,
  platform = `${process.platform}-${process.arch}`,
): Finding {
  if (platform.startsWith('darwin')) {
    return ok(NAME, `not in TensorFlow for macOS: ${NO_KERNELS}`, { enabled: false, from: 'build' });
  }
  const setting = oneDnnSetting(env, platform);
  if (setting === undefined) {
    const summary = `chosen by TensorFlow for this CPU; ${ONEDNN_VARIABLE}=1 or 0 sets it`;
    return ok(NAME, summary, { enabled: undefined, from: 'TensorFlow' });
  }
  const from = env[ONEDNN_VARIABLE] ? 'environment' : 'Shoal';
  const origin = from === 'environment' ? `by ${ONEDNN_VARIABLE}=${setting}` : 'by Shoal’s default';
  if (/^(?:1|true)$/i.test(setting)) return ok(NAME, `on, ${origin}`, { enabled: true, from });
  if (/^(?:0|false)$/i.test(setting)) {
    return ok(NAME, `off, ${origin}: ${NO_KERNELS}`, { enabled: false, from });
  }
  return warning(
    NAME,
    `${ONEDNN_VARIABLE}=${setting} is not a value that TensorFlow recognizes: it chooses by the CPU`,
    `Set ${ONEDNN_VARIABLE} to 1 or 0, or unset it.`,
    { enabled: undefined, from },
  );
}
