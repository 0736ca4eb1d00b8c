/** Are healthy steps of a cluster safe from colliding request ids, with the library that is there? */
import { firstLineOf, ShoalError } from '../../errors/errors.js';
import { searchPlaces } from '../../native/locate.js';
import { surveyRequestIds } from '../../native/request-id-survey.js';
import { type Finding, ok, warning } from './finding.js';

/** Undefined where there is no library to look at. */
export function checkRequestIds(env: Readonly<NodeJS.ProcessEnv>): Finding | undefined {
  let places: ReturnType<typeof searchPlaces>;
  try {
    places = searchPlaces(env);
  } catch (error) {
    // That the library cannot be looked for is the library's finding.
    if (error instanceof ShoalError) return undefined;
    throw error;
  }
  if (!places.found) return undefined;
  const mend =
    'None is needed: an aborted step is found and training recovers. `npx shoal setup` fetches a library that can be repaired.';
  try {
    const survey = surveyRequestIds(places.found);
    if (survey.repairable)
      return ok('request ids', 'TensorFlow’s colliding ids are repaired when a server starts', { ...survey });
    const summary = `TensorFlow’s colliding ids cannot be repaired: ${survey.why}; a step in about 100,000 may be aborted`;
    return warning('request ids', summary, mend, { ...survey });
  } catch (error) {
    const why = firstLineOf(error);
    return warning('request ids', `the library could not be read: ${why}`, 'Run `npx shoal setup`.', { why });
  }
}
