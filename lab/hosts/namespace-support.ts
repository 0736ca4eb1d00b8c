/** Detects what this machine supports: namespaces as root, namespaces without root, or none. */
import { execFile } from 'node:child_process';
import { access, constants } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { ShoalError } from '../../src/base/errors/errors.js';

export interface Tools {
  readonly ip: string;
  readonly nsenter: string;
  readonly unshare: string;
}

export type Support =
  /** `user`: everything runs in a user namespace, for unprivileged users. */
  | { readonly kind: 'namespaces'; readonly user: boolean; readonly tools: Tools }
  | { readonly kind: 'none'; readonly reason: string };

const PACKAGES = {
  ip: 'iproute2',
  nsenter: 'util-linux',
  unshare: 'util-linux',
  mount: 'mount',
  hostname: 'hostname',
};

/** Administration tools are often installed where an ordinary user's PATH does not look. */
export function searchPath(): string {
  return [process.env.PATH ?? '', '/usr/sbin', '/sbin', '/usr/bin', '/bin'].join(delimiter);
}

export async function findTool(name: string, path = searchPath()): Promise<string | undefined> {
  for (const directory of path.split(delimiter)) {
    if (directory === '') continue;
    const file = join(directory, name);
    const found = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (found) return file;
  }
  return undefined;
}

/** Runs a tool to its end; if it fails, its stderr becomes the error message. */
export function runTool(argv: readonly string[], input?: string): Promise<string> {
  const [command, ...args] = argv;
  return new Promise((resolve, reject) => {
    const options = { timeout: 20_000, env: { ...process.env, PATH: searchPath() } };
    const child = execFile(command ?? '', args, options, (cause, stdout, stderr) => {
      if (cause === null) resolve(stdout);
      else {
        const said = stderr.trim() || cause.message;
        reject(new ShoalError('SHOAL_INTERNAL', `${argv.join(' ')}: ${said}`, { cause }));
      }
    });
    child.stdin?.on('error', () => {});
    child.stdin?.end(input);
  });
}

/** Tries everything that a lab needs from the kernel, in namespaces that end with the shell. */
const TRIAL = [
  'mount -t tmpfs tmpfs /tmp',
  'hostname trial',
  'ip link add br0 type bridge',
  'ip link add v0 type veth peer name v1',
].join(' && ');

export interface ProbeOptions {
  readonly platform?: NodeJS.Platform;
  /** The search path for tools. */
  readonly path?: string;
  /** Only unprivileged user namespaces. */
  readonly userOnly?: boolean;
}

export async function probe(options: ProbeOptions = {}): Promise<Support> {
  const { platform = process.platform, path: toolPath = searchPath(), userOnly = false } = options;
  if (platform !== 'linux') return { kind: 'none', reason: `${platform} has no network namespaces` };
  const paths: Partial<Record<keyof typeof PACKAGES, string>> = {};
  for (const name of Object.keys(PACKAGES) as (keyof typeof PACKAGES)[]) {
    const path = await findTool(name, toolPath);
    if (path === undefined) {
      const install = `apt-get install ${PACKAGES[name]}`;
      return { kind: 'none', reason: `the command ${name} is missing (${install})` };
    }
    paths[name] = path;
  }
  const tools = paths as Tools;
  const root = process.getuid?.() === 0 && !userOnly;
  const refusals: string[] = [];
  for (const user of root ? [false, true] : [true]) {
    const flags = user ? ['--user', '--map-root-user'] : [];
    try {
      await runTool([tools.unshare, ...flags, '--net', '--mount', '--uts', '--ipc', 'sh', '-c', TRIAL]);
      return { kind: 'namespaces', user, tools };
    } catch (error) {
      const last = (error as Error).message.split('\n')[0]?.split(': ').slice(-2).join(': ');
      refusals.push(`${user ? 'user namespaces' : 'as root'}: ${last}`);
    }
  }
  return { kind: 'none', reason: `this machine does not allow namespaces (${refusals.join('; ')})` };
}
