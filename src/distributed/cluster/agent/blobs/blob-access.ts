/**
 * Access control for writing and deleting blobs. A header of every such request carries the caller's identity and, for
 * work ordered by the chief, the identity of that chief. A caller without the header is an operator outside the
 * cluster.
 *
 * Fencing comes first: a task that was replaced, or that acts for a chief that was replaced, is refused. A policy then
 * decides what each role may do with which blob: the agent does not interpret blobs.
 */
import type { IncomingMessage } from 'node:http';
import * as v from 'valibot';
import { invalid, ShoalError } from '../../../../base/errors/errors.js';
import type { BlobName } from '../../../store/blob-names.js';
import { statBlob } from '../../../store/disk/blob-disk.js';
import type { OrderedBy } from '../../../store/store.js';
import { type Identity, sameIdentity } from '../../membership/map.js';
import { isOperator, type Security } from '../../spec/security.js';
import type { TaskId } from '../../spec/task-id.js';
import { IdentitySchema, validated } from '../wire.js';

export const CALLER_HEADER = 'x-shoal-caller';
const MAX_CALLER_LENGTH = 4096;
/** How many blobs have their writer remembered, which lets a task delete what it wrote. */
const MAX_WRITERS = 10_000;

const CallerSchema = v.object({
  cluster: v.pipe(v.string(), v.maxLength(200)),
  from: IdentitySchema,
  orderedBy: v.optional(IdentitySchema),
});

export type BlobOperation = 'write' | 'delete';
export type BlobRole = 'operator' | 'chief' | 'task';

/** The access that the policy decides on. The caller's identity is verified as far as the credentials allow. */
export interface BlobAccess {
  readonly operation: BlobOperation;
  readonly name: string;
  readonly role: BlobRole;
  /** Undefined for an operator. */
  readonly task: TaskId | undefined;
  /** Whether the caller executes an order of the current chief. */
  readonly isOrdered: boolean;
  /** Whether the blob exists and another process wrote it. */
  readonly isOthers: boolean;
}

/** Why an access is refused; undefined when it is allowed. */
export type BlobPolicy = (access: BlobAccess) => string | undefined;

/** The header that identifies the calling task. */
export function callerHeader(cluster: string, from: Identity, orderedBy?: OrderedBy): Record<string, string> {
  const pick = ({ task, incarnation, nonce }: OrderedBy) => ({ task, incarnation, nonce });
  const caller = { cluster, from: pick(from), ...(orderedBy && { orderedBy: pick(orderedBy) }) };
  return { [CALLER_HEADER]: encodeURIComponent(JSON.stringify(caller)) };
}

/** The task that a request identifies as its caller; undefined without the header. */
export function callerOf({ headers }: IncomingMessage): v.InferOutput<typeof CallerSchema> | undefined {
  const text = headers[CALLER_HEADER];
  if (text === undefined) return undefined;
  let value: unknown;
  try {
    if (typeof text === 'string' && text.length <= MAX_CALLER_LENGTH)
      value = JSON.parse(decodeURIComponent(text));
  } catch (cause) {
    throw invalid(`header ${CALLER_HEADER} is not valid JSON`, { cause });
  }
  return validated(CallerSchema, value, `header ${CALLER_HEADER}`);
}

export interface BlobGuardOptions {
  readonly security: Security;
  readonly root: string;
  /** Throws when the caller is not a task of this cluster, or its certificate is not valid for the task. */
  readonly claim: (request: IncomingMessage, cluster: string, task: TaskId) => void;
  readonly chief: () => TaskId | undefined;
  /** Why a task, or the chief for which it acts, is refused; undefined when neither was replaced. */
  readonly judge: (from: Identity, orderedBy: Identity | undefined) => string | undefined;
  readonly policy?: BlobPolicy;
}

export class BlobGuard {
  readonly #options: BlobGuardOptions;
  readonly #writers = new Map<string, Identity>();

  constructor(options: BlobGuardOptions) {
    this.#options = options;
  }

  /** Throws SHOAL_FORBIDDEN when the caller may not do this. */
  async check(
    request: IncomingMessage,
    operation: BlobOperation,
    name: BlobName,
    { changesNothing = false } = {},
  ): Promise<void> {
    const { security, claim, chief, judge, policy } = this.#options;
    const caller = callerOf(request);
    if (caller === undefined) {
      if (!isOperator(security, request)) {
        throw refused(
          operation,
          name,
          'the caller identifies no task, and its certificate is not an operator certificate',
        );
      }
      return this.#decide(policy, {
        operation,
        name,
        role: 'operator',
        task: undefined,
        isOrdered: false,
        isOthers: true,
      });
    }
    const { cluster, from, orderedBy } = caller;
    claim(request, cluster, from.task);
    const why = judge(from, orderedBy);
    if (why !== undefined) throw refused(operation, name, why);
    this.#decide(policy, {
      operation,
      name,
      role: from.task === chief() ? 'chief' : 'task',
      task: from.task,
      isOrdered: orderedBy !== undefined,
      isOthers: policy !== undefined && !changesNothing && (await this.#isOthers(name, from)),
    });
  }

  recordWriter(request: IncomingMessage, name: BlobName): void {
    const from = callerOf(request)?.from;
    this.#writers.delete(name);
    if (from !== undefined) this.#writers.set(name, from);
    for (const oldest of this.#writers.keys()) {
      if (this.#writers.size <= MAX_WRITERS) break;
      this.#writers.delete(oldest);
    }
  }

  #decide(policy: BlobPolicy | undefined, access: BlobAccess): void {
    const why = policy?.(access);
    if (why !== undefined) throw refused(access.operation, access.name, why);
  }

  async #isOthers(name: BlobName, from: Identity): Promise<boolean> {
    const writer = this.#writers.get(name);
    if (writer !== undefined && sameIdentity(writer, from)) return false;
    return statBlob(this.#options.root, name).then(
      () => true,
      (error: unknown) => {
        if (error instanceof ShoalError && error.code === 'SHOAL_NOT_FOUND') return false;
        throw error;
      },
    );
  }
}

function refused(operation: BlobOperation, name: string, why: string): ShoalError {
  return new ShoalError('SHOAL_FORBIDDEN', `cannot ${operation} blob ${name}: ${why}`);
}
