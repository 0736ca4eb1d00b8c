/** Checks where TensorFlow's libraries are, and whether they have the version that Shoal is built for. */
import { messageOf, ShoalError } from '../../../base/errors/errors.js';
import { searchPlaces } from '../../../tensorflow/native/library/locate.js';
import { type Finding, ok, problem } from './finding.js';

export function checkLibrary(env: Readonly<NodeJS.ProcessEnv>): Finding {
  try {
    const { found, searched, pin } = searchPlaces(env);
    const details = { ...found, pinnedVersion: pin?.version, searched };
    if (found) {
      const version = found.version ?? 'of unknown version';
      const pinned = pin && found.version !== pin.version ? ` (Shoal is built for ${pin.version})` : '';
      return ok('library', `TensorFlow ${version}${pinned} from ${found.source}, ${found.dir}`, details);
    }
    const fix = env.SHOAL_TF_DIR
      ? 'Point SHOAL_TF_DIR at the folder of the libraries, or unset it.'
      : 'Run `npx shoal setup`.';
    return problem('library', 'TensorFlow’s libraries were not found', fix, details);
  } catch (error) {
    if (!(error instanceof ShoalError)) throw error;
    const [summary] = messageOf(error).split('\n');
    return problem('library', summary ?? error.code, error.hint ?? 'See above.', { searched: [] });
  }
}
