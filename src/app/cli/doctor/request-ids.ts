/** Checks whether the installed library's colliding request ids, which abort healthy steps, can be patched. */
import { firstLineOf, ShoalError } from '../../../base/errors/errors.js';
import { surveyRequestIds } from '../../../distributed/cluster/grpc/request-id-survey.js';
import { searchPlaces } from '../../../tensorflow/native/library/locate.js';
import { type Finding, ok, warning } from './finding.js';

/** Undefined if no library is installed. */
export function checkRequestIds(env: Readonly<NodeJS.ProcessEnv>): Finding | undefined {
  let places: ReturnType<typeof searchPlaces>;
  try {
    places = searchPlaces(env);
  } catch (error) {
    // `checkLibrary` reports that the library cannot be searched for.
    if (error instanceof ShoalError) return undefined;
    throw error;
  }
  if (!places.found) return undefined;
  const fix =
    'Not required: training recovers from an aborted step. `npx shoal setup` fetches a library that can be patched.';
  try {
    const survey = surveyRequestIds(places.found);
    if (survey.repairable)
      return ok(
        'request ids',
        'TensorFlow’s duplicate request ids can be repaired, which a server does when it starts',
        { ...survey },
      );
    const summary = `TensorFlow’s colliding ids cannot be patched: ${survey.why}; about one step in 100,000 may be aborted`;
    return warning('request ids', summary, fix, { ...survey });
  } catch (error) {
    const why = firstLineOf(error);
    return warning('request ids', `the library could not be read: ${why}`, 'Run `npx shoal setup`.', { why });
  }
}
