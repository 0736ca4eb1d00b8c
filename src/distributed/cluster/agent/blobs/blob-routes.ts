/**
 * Blobs over HTTP:
 *
 *   GET    /blobs/NAME            the bytes; supports Range and If-Match
 *   HEAD   /blobs/NAME            size and etag
 *   DELETE /blobs/NAME            204 whether or not it existed
 *   GET    /blobs?prefix=&after=&limit=
 *   GET    /digests/NAME          size and crc32c, computed from the disk
 *   GET    /uploads/NAME?id=      {offset} of an upload; aborts a request that is writing to it
 *   PUT    /uploads/NAME?id=&offset=&size=   appends the body
 *   POST   /uploads/NAME?id=&size=&crc32c=&if_absent=   verifies and publishes
 *   DELETE /uploads/NAME?id=      abandons an upload
 *
 * The guard checks every change: see blob-access.ts. Abandoning an upload only needs its id, which only its writer
 * knows, so that a writer that was replaced can still clean up.
 *
 * Bytes stream between socket and disk with backpressure.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { HttpBindings } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { type Context, Hono } from 'hono';
import { invalid } from '../../../../base/errors/errors.js';
import { blobNameInUrl } from '../../../store/blob-names.js';
import { digestBlob, listBlobs, openBlob, readRange, removeBlob } from '../../../store/disk/blob-disk.js';
import type { Uploads } from '../../../store/disk/blob-upload.js';
import { countIn, queryOf, rangeOf } from '../agent-requests.js';
import type { BlobGuard } from './blob-access.js';

export interface BlobRouteOptions {
  readonly root: string;
  readonly uploads: Uploads;
  readonly guard: BlobGuard;
  readonly maxBlobBytes: number;
  /** A transfer without progress for this long is aborted. */
  readonly idleMs: number;
}

type Env = { Bindings: HttpBindings };
const MAX_LIST = 10_000;

const nameIn = (c: Context<Env>, prefix: string) => blobNameInUrl(c.env.incoming.url ?? '', prefix);

export function blobRoutes(options: BlobRouteOptions): Hono<Env> {
  const { root, guard } = options;
  const app = new Hono<Env>();
  app.get('/blobs', async (c) => {
    const query = queryOf(c.env.incoming);
    const limit = Math.min(countIn(query, 'limit') ?? 1000, MAX_LIST);
    if (limit < 1) throw invalid('query parameter limit must be at least 1');
    const prefix = query.get('prefix') ?? '';
    return c.json(await listBlobs(root, { prefix, after: query.get('after') ?? undefined, limit }));
  });

  app.get('/blobs/*', (c) => sendBlob(c, options));

  app.delete('/blobs/*', async (c) => {
    const name = nameIn(c, '/blobs/');
    await guard.check(c.env.incoming, 'delete', name);
    await removeBlob(root, name);
    return c.body(null, 204);
  });

  app.get('/digests/*', async (c) => {
    const { outgoing } = c.env;
    const gone = new AbortController();
    outgoing.once('close', () => gone.abort());
    return c.json(await digestBlob(root, nameIn(c, '/digests/'), gone.signal));
  });

  addUploadRoutes(app, options);
  return app;
}

/** Answers with the bytes of a blob, or with the requested range. */
async function sendBlob(c: Context<Env>, { root, idleMs }: BlobRouteOptions): Promise<Response> {
  const { incoming, outgoing } = c.env;
  const { file, size, etag, modifiedMs } = await openBlob(root, nameIn(c, '/blobs/'));
  try {
    const wanted = incoming.headers['if-match'];
    if (wanted !== undefined && wanted !== etag) return c.body(null, 412);
    const isWhole = incoming.headers.range === undefined;
    const range = rangeOf(incoming.headers.range, size);
    if (range === undefined && !(isWhole && size === 0)) {
      return c.body(null, 416, { 'content-range': `bytes */${size}` });
    }
    const { start, end } = range ?? { start: 0, end: 0 };
    outgoing.writeHead(isWhole ? 200 : 206, {
      'content-type': 'application/octet-stream',
      'content-length': end - start,
      'accept-ranges': 'bytes',
      'last-modified': new Date(modifiedMs).toUTCString(),
      'x-modified-ms': String(modifiedMs),
      etag,
      ...(isWhole ? {} : { 'content-range': `bytes ${start}-${end - 1}/${size}` }),
    });
    if (incoming.method === 'HEAD') outgoing.end();
    else await whileMoving(incoming, outgoing, idleMs, () => send(outgoing, readRange(file, start, end)));
    return RESPONSE_ALREADY_SENT;
  } finally {
    await file.close();
  }
}

function addUploadRoutes(app: Hono<Env>, { uploads, guard, maxBlobBytes, idleMs }: BlobRouteOptions): void {
  const uploadIn = (c: Context<Env>) => {
    const query = queryOf(c.env.incoming);
    return { name: nameIn(c, '/uploads/'), id: query.get('id') ?? '', query };
  };

  app.get('/uploads/*', async (c) => {
    const { name, id } = uploadIn(c);
    await guard.check(c.env.incoming, 'write', name);
    return c.json({ offset: await uploads.settledOffset(name, id) });
  });

  app.put('/uploads/*', async (c) => {
    const { incoming, outgoing } = c.env;
    const { name, id, query } = uploadIn(c);
    await guard.check(incoming, 'write', name);
    const size = countIn(query, 'size');
    if (size !== undefined && size > maxBlobBytes)
      throw invalid(`blob ${name} has ${size} bytes, the limit is ${maxBlobBytes}`);
    const body = (signal: AbortSignal): AsyncIterable<Uint8Array> => {
      signal.addEventListener('abort', () => incoming.destroy(), { once: true });
      return incoming;
    };
    const append = () =>
      uploads.append(name, id, countIn(query, 'offset') ?? 0, body, { size, maxBytes: maxBlobBytes });
    return c.json({ offset: await whileMoving(incoming, outgoing, idleMs, append) });
  });

  app.post('/uploads/*', async (c) => {
    const { name, id, query } = uploadIn(c);
    const size = countIn(query, 'size');
    const crc32c = countIn(query, 'crc32c');
    if (size === undefined || crc32c === undefined) {
      throw invalid('publishing a blob needs the query parameters size and crc32c');
    }
    const publication = { size, crc32c, ifAbsent: query.get('if_absent') === '1' };
    // A retry after this process restarted: the writer of the blob is no longer known.
    const before = await uploads.published(name, id, publication);
    await guard.check(c.env.incoming, 'write', name, { changesNothing: before !== undefined });
    if (before) return c.json(before, 201);
    const result = await uploads.publish(name, id, publication);
    if (result.published) guard.recordWriter(c.env.incoming, name);
    return result.published ? c.json(result.blob, 201) : c.body(null, 412);
  });

  app.delete('/uploads/*', async (c) => {
    const { name, id } = uploadIn(c);
    await uploads.abandon(name, id);
    return c.body(null, 204);
  });
}

async function send(outgoing: ServerResponse, chunks: AsyncIterable<Uint8Array>): Promise<void> {
  try {
    await pipeline(Readable.from(chunks, { objectMode: false, highWaterMark: 1 }), outgoing);
  } catch {
    // The headers have been sent: only a broken connection can signal that the body is incomplete.
    outgoing.destroy();
  }
}

/** Runs a transfer and closes the connection after `idleMs` without progress. */
async function whileMoving<T>(
  { socket }: IncomingMessage,
  outgoing: ServerResponse,
  idleMs: number,
  transfer: () => Promise<T>,
): Promise<T> {
  const stop = () => socket.destroy();
  socket.setTimeout(idleMs, stop);
  try {
    return await transfer();
  } finally {
    socket.setTimeout(0);
    socket.off('timeout', stop);
    if (!outgoing.headersSent && socket.destroyed) outgoing.destroy();
  }
}
