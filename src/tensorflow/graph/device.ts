/** Full or partial device names: `/job:ps/task:1`, `/device:CPU:0`, `/cpu:0`. */
import { invalid } from '../../base/errors/errors.js';

/** The op about to be created, as passed to a device function. */
export interface OpRequest {
  readonly type: string;
  readonly name: string;
  readonly attrs: Readonly<Record<string, unknown>>;
  /** The device requested by inner scopes. */
  readonly device: string;
}

export type DeviceFunction = (op: OpRequest) => string | null | undefined;
export type DeviceScope = string | DeviceFunction;

export interface DeviceSpec {
  readonly job?: string;
  readonly replica?: string;
  readonly task?: string;
  /** `CPU:0`, or `CPU:*` for any. */
  readonly device?: string;
}

export function parseDevice(text: string): DeviceSpec {
  const spec: { -readonly [K in keyof DeviceSpec]: DeviceSpec[K] } = {};
  for (const part of text.split('/')) {
    if (part === '') continue;
    const [key, ...rest] = part.split(':');
    const value = rest.join(':');
    const name = (key as string).toLowerCase();
    if (name === 'job' || name === 'replica' || name === 'task') spec[name] = value;
    else if (name === 'device') spec.device = withIndex(value);
    else if (name === 'cpu' || name === 'gpu')
      spec.device = `${name.toUpperCase()}:${value === '' ? '*' : value}`;
    else {
      throw invalid(`Invalid device name '${text}': cannot parse '${part}'`, {
        hint: 'The format is /job:ps/task:0/device:CPU:0; each part is optional.',
      });
    }
  }
  return spec;
}

const withIndex = (value: string): string => (value.includes(':') ? value : `${value}:*`);

export function formatDevice({ job, replica, task, device }: DeviceSpec): string {
  const part = (name: string, value: string | undefined) => (value === undefined ? '' : `/${name}:${value}`);
  return part('job', job) + part('replica', replica) + part('task', task) + part('device', device);
}

/** Merges two device names; the parts of `inner` take precedence. */
export function mergeDevices(outer: string, inner: string): string {
  const a = parseDevice(outer);
  const b = parseDevice(inner);
  return formatDevice({
    job: b.job ?? a.job,
    replica: b.replica ?? a.replica,
    task: b.task ?? a.task,
    device: b.device ?? a.device,
  });
}

/** The device of an op under nested scopes: inner scopes take precedence, outer ones fill in missing parts. */
export function resolveDevice(
  devices: readonly DeviceScope[],
  request: Omit<OpRequest, 'device'>,
  own = '',
): string {
  let device = own;
  for (let i = devices.length - 1; i >= 0; i--) {
    const scope = devices[i] as DeviceScope;
    const asked = typeof scope === 'function' ? scope({ ...request, device }) : scope;
    if (asked) device = mergeDevices(asked, device);
  }
  return device;
}
