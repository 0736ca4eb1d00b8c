/**
 * The versions of what tasks of different releases exchange. A release speaks a range of versions of each protocol; two
 * tasks use the highest version that both speak, and a pair without one is refused at its first contact:
 * docs/design/029-versions.md. Whoever changes a format or a protocol changes `VERSIONS`.
 */
import { type ErrorDetails, invalid, ShoalError } from '../errors/errors.js';
import { packageVersion } from '../files/package.js';

export interface VersionRange {
  readonly oldest: number;
  readonly newest: number;
}

export type Protocol = keyof typeof VERSIONS;

/** What this release speaks. */
export const VERSIONS = {
  /** Requests between agents and what they carry: membership messages, orders, requests, blobs. */
  agent: { oldest: 1, newest: 1 },
  /**
   * The streams of the direct engine: the messages, and the layout of each. Since version 2 a task keeps tensors between
   * stages, since version 3 the bytes of large tensors may take a connection of their own.
   */
  stages: { oldest: 1, newest: 3 },
  /** The manifests of checkpoints. Version 1 has the input state inline, version 2 names a file of the checkpoint. */
  checkpoint: { oldest: 1, newest: 2 },
} as const satisfies Readonly<Record<string, VersionRange>>;

const NAMES: Readonly<Record<Protocol, string>> = {
  agent: 'the agent protocol',
  stages: 'the stage protocol',
  checkpoint: 'the checkpoint format',
};

/** Read at the start: the package may be replaced by a newer one while this process runs. */
export const RELEASE = packageVersion();

/** The header of every request between agents, and of the response that opens a stream. */
export const VERSIONS_HEADER = 'x-shoal-versions';
const MAX_HEADER_LENGTH = 1024;

/** What one side of a connection is and speaks. */
export interface Speaker {
  /** Undefined for a process outside of the cluster, such as the command line. */
  readonly task: string | undefined;
  readonly release: string;
  readonly versions: Readonly<Record<Protocol, VersionRange>>;
}

export const ownVersions = (task: string | undefined): Speaker => ({
  task,
  release: RELEASE,
  versions: VERSIONS,
});

/** `release=0.1.0; agent=1-1; stages=1-1; checkpoint=1-2; task=/job:ps/task:0` */
export function encodeVersions({ task, release, versions }: Speaker): string {
  const ranges = Object.entries(versions).map(([name, { oldest, newest }]) => `${name}=${oldest}-${newest}`);
  return [`release=${release}`, ...ranges, ...(task === undefined ? [] : [`task=${task}`])].join('; ');
}

/** Fields that this release does not know are ignored; a protocol that the header does not name has version 1. */
export function decodeVersions(header: string): Speaker {
  if (header.length > MAX_HEADER_LENGTH) throw invalid(`header ${VERSIONS_HEADER} is too long`);
  const fields = new Map([...header.matchAll(/([a-z]+)=([^;]*)/g)].map(([, name, value]) => [name, value]));
  const rangeOf = (name: Protocol): VersionRange => {
    const text = fields.get(name) ?? '1-1';
    const [, oldest, newest] = /^(\d{1,6})-(\d{1,6})$/.exec(text) ?? [];
    if (oldest === undefined)
      throw invalid(`header ${VERSIONS_HEADER} has the invalid range ${name}=${text}`);
    return { oldest: Number(oldest), newest: Number(newest) };
  };
  const names = Object.keys(VERSIONS) as Protocol[];
  return {
    task: fields.get('task'),
    release: fields.get('release') ?? 'of unknown version',
    versions: Object.fromEntries(names.map((name) => [name, rangeOf(name)])) as Speaker['versions'],
  };
}

/** The highest version that both speak; undefined if there is none. */
export function commonVersion(a: VersionRange, b: VersionRange): number | undefined {
  const highest = Math.min(a.newest, b.newest);
  return highest >= Math.max(a.oldest, b.oldest) ? highest : undefined;
}

/**
 * Why two sides cannot work together; undefined if they can. Two tasks need a common version of every protocol, another
 * process one of the agent protocol.
 */
export function mismatchOf(a: Speaker, b: Speaker): ShoalError | undefined {
  const isPair = a.task !== undefined && b.task !== undefined;
  for (const protocol of isPair ? (Object.keys(VERSIONS) as Protocol[]) : (['agent'] as const)) {
    if (commonVersion(a.versions[protocol], b.versions[protocol]) !== undefined) continue;
    const side = ({ task, release, versions }: Speaker) =>
      `${task ?? 'a program outside of the cluster'} (Shoal ${release}) speaks ${describeRange(versions[protocol])}`;
    return versionMismatch(`${side(a)} of ${NAMES[protocol]}, ${side(b)}: they cannot work together`, {
      hint: 'The tasks of a cluster must run the same release of Shoal or neighbouring ones: install such a release for one of the two.',
    });
  }
  return undefined;
}

export const describeRange = ({ oldest, newest }: VersionRange): string =>
  oldest === newest ? `version ${newest}` : `versions ${oldest} to ${newest}`;

export function versionMismatch(message: string, details: ErrorDetails): ShoalError {
  return new ShoalError('SHOAL_VERSION_MISMATCH', message, details);
}
