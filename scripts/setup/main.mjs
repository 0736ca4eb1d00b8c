/**
 * Installs TensorFlow: `node scripts/setup/main.mjs [--lock FILE] [--platform NAME] [--wait SECONDS]`.
 * Prints the location of the libraries to stdout, as JSON; everything else goes to stderr.
 */
import { parseArgs } from 'node:util';
import { describeError, exitCodeOf } from './errors.mjs';
import { fetchTensorFlow } from './fetch.mjs';
import { readLock } from './locate.mjs';
import { interruptible } from './processes.mjs';

const { values } = parseArgs({
  options: { lock: { type: 'string' }, platform: { type: 'string' }, wait: { type: 'string' } },
});

try {
  const result = await interruptible((signal) =>
    fetchTensorFlow({
      lock: readLock(values.lock),
      platform: values.platform,
      waitMs: values.wait === undefined ? undefined : Number(values.wait) * 1000,
      signal,
      log: (line) => process.stderr.write(`shoal: ${line}\n`),
    }),
  );
  process.stdout.write(`${JSON.stringify(result)}\n`);
} catch (error) {
  process.stderr.write(`${describeError(error)}\n`);
  process.exitCode = exitCodeOf(error);
}
