/**
 * Whether TensorFlow uses oneDNN. On CPUs, some kernels exist only in oneDNN (channels first, gradients of dilated
 * convolutions), and TensorFlow turns it on or off depending on the CPU model: docs/design/014-onednn.md.
 */
import koffi, { type LibraryHandle } from './ffi.js';

export const ONEDNN_VARIABLE = 'TF_ENABLE_ONEDNN_OPTS';

const DEFAULT_ON = new Set(['linux-x64']);

/**
 * The value of TF_ENABLE_ONEDNN_OPTS for a process with this environment: the user's, else Shoal's default for the
 * platform. Undefined leaves the decision to TensorFlow.
 */
export function oneDnnSetting(
  env: Readonly<NodeJS.ProcessEnv> = process.env,
  platform = `${process.platform}-${process.arch}`,
): string | undefined {
  return env[ONEDNN_VARIABLE] || (DEFAULT_ON.has(platform) ? '1' : undefined);
}

/** Sets the variable in the environment of the process. Must run before TensorFlow is loaded. */
export function applyOneDnnSetting(): void {
  const setting = oneDnnSetting();
  if (setting === undefined) return;
  // In a worker thread `process.env` is a copy that native code does not see.
  const setenv = koffi.load(null).func('setenv', 'int', ['str', 'str', 'int']);
  setenv(ONEDNN_VARIABLE, setting, 1);
}

/** Whether the library uses oneDNN; undefined if it does not export the query. */
export function askOneDnn(framework: LibraryHandle): boolean | undefined {
  try {
    return Boolean(framework.func('_ZN10tensorflow12IsMklEnabledEv', 'bool', [])());
  } catch {
    return undefined;
  }
}

/** The hint for errors of kernels that only oneDNN implements. */
export function oneDnnHint(
  message: string,
  enabled: boolean | undefined,
  platform: NodeJS.Platform = process.platform,
): string | undefined {
  const channelsFirst = /\bonly support(?:s|ed)?\b.*\bNHWC\b/.test(message);
  const dilated =
    /dilation rates larger than 1|does not support dilations|only supports dilated rates of 1/.test(message);
  if (enabled !== false || !(channelsFirst || dilated)) return undefined;
  const instead = channelsFirst ? 'use channels last (NHWC)' : 'use dilations of 1';
  if (platform === 'darwin') {
    return `On CPUs only oneDNN has this kernel, and TensorFlow for macOS is built without it: ${instead}.`;
  }
  return `On CPUs only oneDNN has this kernel, and oneDNN is off: set ${ONEDNN_VARIABLE}=1 for every task, or ${instead}.`;
}
