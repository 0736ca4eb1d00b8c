/** Refuses the requests of releases that cannot work with this one, before anything else of them is read. */
import type { IncomingMessage } from 'node:http';
import { decodeVersions, mismatchOf, ownVersions, VERSIONS_HEADER } from '../../../base/bytes/versions.js';
import { invalid, isShoalError, messageOf, type ShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { TaskId } from '../spec/task-id.js';

/** How many different refusals are logged. */
const MAX_LOGGED = 100;

/** Returns why a request is refused; undefined when it is not. */
export type VersionCheck = (request: IncomingMessage) => ShoalError | undefined;

export function versionCheck({
  task,
  onNotice,
}: {
  readonly task?: TaskId;
  readonly onNotice?: Log;
}): VersionCheck {
  const logged = new Set<string>();
  return ({ headers }) => {
    const header = headers[VERSIONS_HEADER];
    // Another program, such as a monitoring system.
    if (typeof header !== 'string') return undefined;
    try {
      const mismatch = mismatchOf(decodeVersions(header), ownVersions(task));
      if (mismatch !== undefined && !logged.has(mismatch.message) && logged.size < MAX_LOGGED) {
        logged.add(mismatch.message);
        onNotice?.(`a request is refused: ${mismatch.message}`, 'warn');
      }
      return mismatch;
    } catch (error) {
      return isShoalError(error) ? error : invalid(messageOf(error));
    }
  };
}
