import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { crc32c } from '../../../base/bytes/crc32c.js';
import { type BlobAccess, type BlobOperation, callerHeader } from '../../cluster/agent/blobs/blob-access.js';
import { initCerts, issueCert } from '../../cluster/spec/certs.js';
import { loadTls, type Security } from '../../cluster/spec/security.js';
import { type TaskId, taskId } from '../../cluster/spec/task-id.js';
import { hooks, type TestAgent, testAgent } from '../../cluster/testing/agents.js';
import { checkpointBlobPolicy } from './blob-policy.js';

const ATTEMPT = 'job/model.ckpt-7@5-3-0123456789ab';
const BLOBS = {
  manifest: 'job/manifests/000000000003-7-5-3-0123456789ab.json',
  index: `${ATTEMPT}/model.ckpt-7.index`,
  meta: `${ATTEMPT}/model.ckpt-7.meta`,
  data: `${ATTEMPT}/model.ckpt-7.data-00000-of-00002`,
  'data outside of an attempt': 'job/x/model.ckpt-7.data-00000-of-00002',
  other: 'notes.txt',
} as const;
type Kind = keyof typeof BLOBS;

const CALLERS = {
  operator: { role: 'operator', task: undefined },
  chief: { role: 'chief', task: taskId('chief', 0) },
  ps: { role: 'task', task: taskId('ps', 1) },
  worker: { role: 'task', task: taskId('worker', 0) },
  evaluator: { role: 'task', task: taskId('evaluator', 0) },
} as const;
type Caller = keyof typeof CALLERS;

const CIRCUMSTANCES = {
  'without an order': { isOrdered: false, isOthers: false },
  'on the chief’s order': { isOrdered: true, isOthers: false },
  'on the chief’s order, where another has written': { isOrdered: true, isOthers: true },
  'where another has written': { isOrdered: false, isOthers: true },
} as const;
type Circumstance = keyof typeof CIRCUMSTANCES;

/** The permissions of a ps or worker; the chief and an operator may do everything, an evaluator nothing. */
const ALLOWED: readonly (readonly [Caller, BlobOperation, Kind, Circumstance])[] = (
  ['ps', 'worker'] as const
).flatMap((caller) => [
  [caller, 'write', 'data', 'on the chief’s order'] as const,
  [caller, 'delete', 'data', 'without an order'] as const,
  [caller, 'delete', 'data', 'on the chief’s order'] as const,
]);

const keys = <K extends string>(table: Readonly<Record<K, unknown>>) => Object.keys(table) as K[];

const TABLE = keys(CALLERS).flatMap((caller) =>
  (['write', 'delete'] as const).flatMap((operation) =>
    keys(BLOBS).flatMap((kind) =>
      keys(CIRCUMSTANCES).map((circumstance) => {
        const isAllowed =
          caller === 'operator' ||
          caller === 'chief' ||
          ALLOWED.some((row) => row.join() === [caller, operation, kind, circumstance].join());
        return { caller, operation, kind, circumstance, verdict: isAllowed ? 'allowed' : 'refused' };
      }),
    ),
  ),
);

describe('blobs of checkpoints', () => {
  it.each(TABLE)('$caller, to $operation $kind $circumstance: $verdict', (row) => {
    const access: BlobAccess = {
      ...CALLERS[row.caller],
      ...CIRCUMSTANCES[row.circumstance],
      operation: row.operation,
      name: BLOBS[row.kind],
    };
    expect(checkpointBlobPolicy(access) === undefined ? 'allowed' : 'refused').toBe(row.verdict);
  });
});

describe('an agent with certificates', () => {
  const CHIEF = taskId('chief', 0);
  let folder: string;
  let agent: TestAgent;
  const security = {} as Record<Caller | 'ps 2', Security>;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'shoal-policy-'));
    await initCerts({ dir: folder });
    const bearers: Record<keyof typeof security, TaskId | 'operator'> = {
      operator: 'operator',
      chief: CHIEF,
      ps: taskId('ps', 1),
      'ps 2': taskId('ps', 2),
      worker: taskId('worker', 0),
      evaluator: taskId('evaluator', 0),
    };
    for (const [name, bearer] of Object.entries(bearers)) {
      await issueCert({ dir: folder, bearer });
      security[name as Caller] = loadTls(folder, bearer);
    }
    agent = await testAgent({
      security: security.worker,
      hooks: { ...hooks, chief: () => CHIEF },
      blobPolicy: checkpointBlobPolicy,
    });
  });
  afterAll(async () => {
    await agent.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const identity = (task: TaskId) => ({ task, incarnation: 5, nonce: 'n' });
  /** The agent's blobs, accessed with a certificate and the claimed identity of a task. */
  const blobs = (bearer: keyof typeof security, task?: TaskId) =>
    agent.client(security[bearer], task && { identity: () => identity(task) }).blobs;
  const bytes = Buffer.from('x');
  const refused = { code: 'SHOAL_FORBIDDEN' };
  const ordered = { orderedBy: identity(CHIEF) };

  it('accepts everything from an operator without a task, and from the chief', async () => {
    for (const caller of [blobs('operator'), blobs('chief', CHIEF)]) {
      for (const name of Object.values(BLOBS)) {
        await caller.write(name, bytes);
        await caller.remove(name);
      }
    }
  });

  it('refuses a caller that claims no task, or another one than in its certificate', async () => {
    await expect(blobs('worker').write(BLOBS.data, bytes, ordered)).rejects.toMatchObject(refused);
    await expect(blobs('worker', CHIEF).write(BLOBS.manifest, bytes)).rejects.toMatchObject(refused);
    await expect(blobs('worker', CHIEF).remove(BLOBS.manifest)).rejects.toMatchObject(refused);
    await expect(blobs('operator', CHIEF).write(BLOBS.manifest, bytes)).rejects.toMatchObject(refused);
  });

  it('lets a ps write its shard on an order and remove it, but not those of others', async () => {
    const [own, other] = [blobs('ps', taskId('ps', 1)), blobs('ps 2', taskId('ps', 2))];
    await expect(own.write(BLOBS.data, bytes)).rejects.toMatchObject(refused);
    await own.write(BLOBS.data, bytes, ordered);
    await expect(other.write(BLOBS.data, Buffer.from('y'), ordered)).rejects.toMatchObject(refused);
    await expect(other.remove(BLOBS.data)).rejects.toMatchObject(refused);
    expect((await other.readAll(BLOBS.data)).toString()).toBe('x');
    await own.remove(BLOBS.data);
    expect(await other.stat(BLOBS.data)).toBeUndefined();
  });
});

describe('an agent that restarted after it stored a shard', () => {
  const CHIEF = taskId('chief', 0);
  const identity = (task: TaskId, incarnation = 5) => ({ task, incarnation, nonce: 'n' });
  const bytes = Buffer.from('x');
  let folder: string;
  let agent: TestAgent;

  const start = () =>
    testAgent({
      blobRoot: folder,
      hooks: {
        ...hooks,
        chief: () => CHIEF,
        judgeWriter: (_, orderedBy) =>
          (orderedBy?.incarnation ?? 5) < 5 ? 'it has been replaced' : undefined,
      },
      blobPolicy: checkpointBlobPolicy,
    });
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'shoal-again-'));
    const first = await start();
    const ps = first.client(undefined, { identity: () => identity(taskId('ps', 1)) });
    await ps.blobs.write(BLOBS.data, bytes, { orderedBy: identity(CHIEF) });
    await first.close();
    agent = await start();
  });
  afterAll(async () => {
    await agent.close();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Repeats the publication of a one-byte blob that was uploaded to the previous process. */
  async function publishAgain(crc: number, orderedBy?: ReturnType<typeof identity>): Promise<number> {
    const query = `id=upload-1&size=1&crc32c=${crc}&if_absent=0`;
    const answer = await fetch(`http://${agent.address}/uploads/${BLOBS.data}?${query}`, {
      method: 'POST',
      headers: callerHeader('shoal', identity(taskId('ps', 1)), orderedBy),
    });
    return answer.status;
  }

  it('accepts a repeated publication by the rules of the first', async () => {
    expect(await publishAgain(crc32c(bytes), identity(CHIEF))).toBe(201);
    expect(await publishAgain(crc32c(bytes))).toBe(403);
    expect(await publishAgain(crc32c(bytes), identity(CHIEF, 4))).toBe(403);
  });

  it('refuses a different one, and does not let the caller delete the existing blob', async () => {
    expect(await publishAgain((crc32c(bytes) ^ 1) >>> 0, identity(CHIEF))).toBe(403);
    const ps = agent.client(undefined, { identity: () => identity(taskId('ps', 1)) });
    await expect(ps.blobs.remove(BLOBS.data)).rejects.toMatchObject({ code: 'SHOAL_FORBIDDEN' });
    const other = ps.blobs.write(BLOBS.data, Buffer.from('y'), { orderedBy: identity(CHIEF) });
    await expect(other).rejects.toMatchObject({ code: 'SHOAL_FORBIDDEN' });
  });
});
