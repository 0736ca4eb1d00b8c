/** A server on loopback for the page of jobs that do not run. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { listenError } from '../../../distributed/cluster/agent/listen-error.js';
import { Access } from '../serve/access.js';
import { PageServer } from '../serve/page-server.js';
import { DirectorySource } from './directory-source.js';

const IN_USE = 'choose another port with --port, or leave it out for a free one';

export interface DirectoryPage extends AsyncDisposable {
  readonly port: number;
}

export async function serveDirectoryPage(
  directories: readonly string[],
  port: number,
): Promise<DirectoryPage> {
  const source = await DirectorySource.open(directories);
  const pages = new PageServer({ access: new Access({ kind: 'none' }, () => []), source: () => source });
  const server = createServer((request, response) => {
    if (pages.serve(request, response, () => {})) return;
    response.writeHead(request.url === '/' ? 303 : 404, { location: '/page' }).end();
  });
  await new Promise<void>((done, fail) => {
    server.once('error', (cause) =>
      fail(listenError('the page', { host: '127.0.0.1', port }, cause, { inUse: IN_USE })),
    );
    server.listen(port, '127.0.0.1', done);
  });
  return {
    port: (server.address() as AddressInfo).port,
    [Symbol.asyncDispose]: () =>
      new Promise((done) => {
        pages[Symbol.dispose]();
        server.close(() => done());
        server.closeAllConnections();
      }),
  };
}
