/** Certificate and key files, which may be renewed while a task runs. */
import { readFileSync, statSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import { readPrivateFile } from './private-file.js';

export interface TlsSecurity {
  readonly kind: 'tls';
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
  /** Rereads the files; true when they changed. Throws once per change when they are invalid. */
  readonly reload?: () => boolean;
}

export interface TlsFiles {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

/** Reads the files. `reload` updates the returned object. */
export function tlsOfFiles(files: TlsFiles): TlsSecurity {
  let seen = signatureOf(files);
  let current = read(files);
  return {
    kind: 'tls',
    get ca() {
      return current.ca;
    },
    get cert() {
      return current.cert;
    },
    get key() {
      return current.key;
    },
    reload: () => {
      const signature = signatureOf(files);
      if (signature === seen) return false;
      seen = signature;
      const next = read(files);
      // Throws for a certificate and key that do not match, and for a partially written file.
      createSecureContext(next);
      current = next;
      return true;
    },
  };
}

function read({ ca, cert, key }: TlsFiles) {
  return { ca: readFileSync(ca, 'utf8'), cert: readFileSync(cert, 'utf8'), key: readPrivateFile(key) };
}

/** Changes when a file does. A file that is briefly missing while it is replaced counts as a change. */
function signatureOf({ ca, cert, key }: TlsFiles): string {
  return [ca, cert, key]
    .map((path) => {
      const stat = statSync(path, { throwIfNoEntry: false });
      return stat === undefined ? '-' : `${stat.ino} ${stat.size} ${stat.mtimeMs}`;
    })
    .join();
}
