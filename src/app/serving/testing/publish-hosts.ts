/** Serving processes that accept versions, for tests: each with its own directory, all closed together. */
import { cp, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { manifestOf, type PublishedManifest } from '../publish/manifest.js';
import { PublishTarget } from '../publish/target.js';
import type { BeginReply } from '../publish/wire.js';
import { type ServeOptions, type Serving, serve } from '../serve.js';
import { writeHalfPlus } from './models.js';

export interface Host {
  readonly serving: Serving;
  readonly base: string;
  readonly address: string;
  readonly lines: readonly string[];
}

/** `first`: the version that is there from the beginning, default 1; 0: none. */
export type HostChanges = ServeOptions & { readonly base?: string; readonly first?: number };

export class PublishHosts {
  readonly root: string;
  /** Versions 1 to 4, of which each adds its number. */
  readonly made: string;
  readonly #closers: (() => Promise<unknown>)[] = [];
  #bases = 0;

  private constructor(root: string) {
    this.root = root;
    this.made = join(root, 'made');
  }

  static async create(): Promise<PublishHosts> {
    const hosts = new PublishHosts(await mkdtemp(join(tmpdir(), 'shoal-publish-')));
    for (const version of [1, 2, 3, 4]) await writeHalfPlus(hosts.made, version, version);
    return hosts;
  }

  version(number: number): string {
    return join(this.made, String(number));
  }

  manifest(number: number): Promise<PublishedManifest> {
    return manifestOf(this.version(number));
  }

  newBase(): string {
    return join(this.root, `base-${this.#bases++}`);
  }

  /** A server of the model `half`. */
  async host({ base = this.newBase(), first = 1, ...changes }: HostChanges = {}): Promise<Host> {
    const lines: string[] = [];
    await mkdir(base, { recursive: true });
    if (first > 0 && (await readdir(base)).length === 0)
      await cp(this.version(first), join(base, String(first)), { recursive: true });
    const serving = await serve({
      models: { half: base },
      restPort: 0,
      grpcPort: false,
      publishPort: 0,
      pollSecs: 0.1,
      log: (line) => lines.push(line),
      ...changes,
    });
    this.onClose(() => serving.close({ graceSecs: 0 }));
    return { serving, base, address: `127.0.0.1:${serving.publishPort}`, lines };
  }

  /** Begins to publish a version as another publisher, who goes on by `Publisher`. */
  async begin(
    { address }: Host,
    {
      version,
      content = version,
      model,
      by = 'another',
    }: {
      readonly version: number;
      readonly content?: number;
      readonly model?: string;
      readonly by?: string;
    },
  ): Promise<Publisher> {
    const target = new PublishTarget(address, { kind: 'none' });
    this.onClose(async () => target.close());
    const directory = this.version(content);
    const manifest = await this.manifest(content);
    const { digest, files } = manifest;
    const reply = await target.begin({ kind: 'publish', model, by, version, digest, files: [...files] });
    return new Publisher(target, directory, manifest, reply);
  }

  onClose(close: () => Promise<unknown>): void {
    this.#closers.push(close);
  }

  /** Closes the servers. */
  async close(): Promise<void> {
    for (const close of this.#closers.splice(0)) await close();
  }

  async remove(): Promise<void> {
    await rm(this.root, { recursive: true, force: true });
  }
}

/** A publication in single steps. */
export class Publisher {
  readonly target: PublishTarget;
  readonly manifest: PublishedManifest;
  readonly reply: BeginReply;
  readonly #directory: string;

  constructor(target: PublishTarget, directory: string, manifest: PublishedManifest, reply: BeginReply) {
    this.target = target;
    this.#directory = directory;
    this.manifest = manifest;
    this.reply = reply;
  }

  get id(): string {
    return this.reply.outcome === 'open' ? this.reply.id : '';
  }

  async prepare(): Promise<void> {
    const signal = AbortSignal.timeout(20_000);
    await this.target.send(this.id, this.#directory, this.manifest, { signal, onSent: () => {} });
    await this.target.reach(this.id, 'prepared', signal);
  }

  async commit(): Promise<void> {
    await this.target.reach(this.id, 'committed', AbortSignal.timeout(20_000));
  }
}

/** What a server adds: the number of the version that answers. */
export async function answerOf({ serving }: Host, model = 'half'): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${serving.restPort}/v1/models/${model}:predict`, {
    method: 'POST',
    body: JSON.stringify({ instances: [0] }),
  });
  const { predictions } = (await response.json()) as { predictions: readonly number[] };
  return predictions[0] as number;
}

/** The versions on the disk of a server, lowest first. */
export const versionsOn = async ({ base }: Host): Promise<readonly string[]> =>
  (await readdir(base)).filter((name) => /^\d+$/.test(name)).sort((a, b) => Number(a) - Number(b));

/** What a server has received and not published, and links to it. */
export const stagedOn = async ({ base }: Host): Promise<readonly string[]> =>
  (await readdir(base)).filter((name) => name.includes('.tmp-'));
