/** The standard health service (grpc.health.v1): SERVING while every model has a version that serves. */
import { create, toBinary } from '@bufbuild/protobuf';
import {
  Health,
  HealthCheckRequestSchema,
  HealthCheckResponseSchema,
  HealthListRequestSchema,
  HealthListResponseSchema,
  HealthCheckResponse_ServingStatus as ServingStatus,
} from '../../../base/proto/generated/health_v1_pb.js';
import { ServingError } from '../status.js';
import type { Call } from './call.js';
import { decode, pathOf, type RpcMethod, unary } from './methods.js';

/** How soon watchers learn of a change. */
const WATCH_MS = 250;

export interface HealthOptions {
  /** Names of services besides the empty one, which is the server. */
  readonly services: readonly string[];
  readonly isReady: () => boolean;
  readonly watchMs?: number;
}

export function healthService({
  services,
  isReady,
  watchMs = WATCH_MS,
}: HealthOptions): [string, RpcMethod][] {
  const known = new Set(['', ...services]);
  const status = () => (isReady() ? ServingStatus.SERVING : ServingStatus.NOT_SERVING);
  const open = (method: RpcMethod): RpcMethod => ({ ...method, isOpen: true });
  const watchers = new Watchers(status, watchMs);
  return [
    [
      pathOf(Health, Health.method.check),
      open(
        unary(HealthCheckRequestSchema, HealthCheckResponseSchema, ({ service }) => {
          if (!known.has(service)) throw new ServingError('NOT_FOUND', `Unknown service ${service}`);
          return create(HealthCheckResponseSchema, { status: status() });
        }),
      ),
    ],
    [
      pathOf(Health, Health.method.list),
      open(
        unary(HealthListRequestSchema, HealthListResponseSchema, () => {
          const statuses = [...known].map((name) => [name, { status: status() }] as const);
          return create(HealthListResponseSchema, { statuses: Object.fromEntries(statuses) });
        }),
      ),
    ],
    [
      pathOf(Health, Health.method.watch),
      { kind: 'stream', isOpen: true, open: (call) => watch(call, known, watchers) },
    ],
  ];
}

function watch(call: Call, known: ReadonlySet<string>, watchers: Watchers): void {
  let service: string | undefined;
  call.receive(
    (message) => {
      try {
        service = decode(HealthCheckRequestSchema, message).service;
      } catch (error) {
        call.fail(error);
      }
    },
    () => {
      if (service === undefined) call.fail(new ServingError('UNIMPLEMENTED', 'The client sent no message'));
      else if (known.has(service)) watchers.add(call);
      // As the protocol asks, the stream of an unknown service stays open.
      else void call.send([responseOf(ServingStatus.SERVICE_UNKNOWN)]);
    },
  );
}

/** The open watches. One timer looks at the status for all of them, while there are any. */
class Watchers {
  readonly #calls = new Set<Call>();
  #timer: NodeJS.Timeout | undefined;
  #last: ServingStatus | undefined;

  constructor(
    readonly status: () => ServingStatus,
    readonly watchMs: number,
  ) {}

  add(call: Call): void {
    const first = this.#timer ? (this.#last as ServingStatus) : this.status();
    this.#last = first;
    this.#calls.add(call);
    call.afterEnd(() => this.#calls.delete(call));
    void call.send([responseOf(first)]);
    this.#timer ??= setInterval(() => this.#look(), this.watchMs);
  }

  #look(): void {
    const found = this.status();
    if (found !== this.#last) for (const call of this.#calls) void call.send([responseOf(found)]);
    this.#last = found;
    if (this.#calls.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

const responseOf = (status: ServingStatus): Uint8Array =>
  toBinary(HealthCheckResponseSchema, create(HealthCheckResponseSchema, { status }));
