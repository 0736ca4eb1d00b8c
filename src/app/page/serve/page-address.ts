/** The line that says where the page of a cluster is. */
import { relative } from 'node:path';
import { formatAddress } from '../../../distributed/cluster/spec/address.js';
import { pageCode } from './access.js';

const ANY = new Set(['0.0.0.0', '::']);

export interface PagePlace {
  readonly host: string;
  readonly port: number;
  /** That of a cluster whose token nobody has chosen. */
  readonly token: string;
  /** The directory of the job. */
  readonly dir: string;
  /** Whether a person reads this: a file may be read by others too, and gets no code. */
  readonly isScreen: boolean;
}

export function describePage({ host, port, token, dir, isScreen }: PagePlace): string {
  const address = formatAddress({ host: ANY.has(host) ? '127.0.0.1' : host, port });
  const short = relative(process.cwd(), dir);
  const place = short === '' || short.startsWith('..') ? dir : short;
  const code = isScreen ? `code ${pageCode(token)}` : `\`shoal page ${place}\` prints its code`;
  return `page: http://${address}/page · ${code}`;
}
