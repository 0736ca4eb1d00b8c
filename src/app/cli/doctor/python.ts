/** Checks for a Python with pip, which only setup needs. */
import { findPip, findPython, findPythonTensorFlow } from '../../../../scripts/setup/python.mjs';
import { ShoalError } from '../../../base/errors/errors.js';
import { asShoalError } from '../../../tensorflow/native/library/locate.js';
import { type Finding, ok, problem, warning } from './finding.js';

export async function checkPython(env: Readonly<NodeJS.ProcessEnv>, haveLibrary: boolean): Promise<Finding> {
  try {
    const python = await findPython({ env });
    const [pip, tensorflow] = await Promise.all([
      findPip(python, { env }),
      findPythonTensorFlow(python, { env }),
    ]);
    const beside = tensorflow ? `, TensorFlow ${tensorflow.version}` : '';
    return ok('python', `${python.version} with pip ${pip}${beside}, ${python.executable}`, {
      ...python,
      pip,
      tensorflow,
    });
  } catch (thrown) {
    const error = asShoalError(thrown);
    if (!(error instanceof ShoalError)) throw error;
    const report = haveLibrary ? warning : problem;
    const summary = error.message.split('\n')[0] ?? error.code;
    return report(
      'python',
      `${summary}${haveLibrary ? ' (not needed: the libraries are installed)' : ''}`,
      error.hint ?? '',
      {},
    );
  }
}
