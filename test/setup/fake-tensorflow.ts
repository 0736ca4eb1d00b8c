/**
 * A small fake TensorFlow for set-up tests: a wheel (a zip with two "libraries" and a header), a lock file that pins it,
 * and a package index on loopback that serves it to the real pip and can suspend a download halfway.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { deflateRawSync } from 'node:zlib';
import { crc32 } from '@node-rs/crc32';

export const PLATFORM = 'test-any';
const PACKAGE = 'tensorflow-cpu';
const VERSION = '0.0.7';
const WHEEL = `tensorflow_cpu-${VERSION}-cp311-cp311-manylinux_2_27_x86_64.whl`;
const INFO = `tensorflow_cpu-${VERSION}.dist-info`;

export interface FakeTensorFlow {
  readonly wheelFile: string;
  readonly lockFile: string;
  readonly lock: FakeLock;
}

interface FakeFile {
  file: string;
  size: number;
  sha256: string;
}

export interface FakeLock {
  version: string;
  platforms: Record<
    string,
    {
      package: string;
      pip: { platform: string; python: string; abi: string };
      wheel: FakeFile;
      libraries: { cc: FakeFile; framework: FakeFile };
      crc32c?: {
        package: string;
        version: string;
        pip: { platform: string; python: string; abi: string };
        wheel: FakeFile;
        library: FakeFile & { entry: string };
      };
    }
  >;
}

/** Writes the wheel and its lock file; `ccBytes` is the size of the larger library, which compresses well. */
export function makeFakeTensorFlow(dir: string, ccBytes = 3_000_000): FakeTensorFlow {
  const cc = Buffer.alloc(ccBytes, 'c');
  const framework = Buffer.from('framework');
  const wheel = zip({
    'tensorflow/libtensorflow_framework.so.2': framework,
    'tensorflow/libtensorflow_cc.so.2': cc,
    'tensorflow/include/tensorflow/c/c_api.h': Buffer.from('/* header */'),
    'tensorflow/python/not_needed.py': Buffer.from('pass'),
    [`${INFO}/METADATA`]: Buffer.from(`Metadata-Version: 2.1\nName: ${PACKAGE}\nVersion: ${VERSION}\n`),
    [`${INFO}/WHEEL`]: Buffer.from(
      'Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp311-cp311-manylinux_2_27_x86_64\n',
    ),
    [`${INFO}/RECORD`]: Buffer.from(''),
  });
  mkdirSync(dir, { recursive: true });
  const wheelFile = join(dir, WHEEL);
  writeFileSync(wheelFile, wheel);
  const lock: FakeLock = {
    version: VERSION,
    platforms: {
      [PLATFORM]: {
        package: PACKAGE,
        pip: { platform: 'manylinux_2_27_x86_64', python: '3.11', abi: 'cp311' },
        wheel: describe(WHEEL, wheel),
        libraries: {
          cc: describe('libtensorflow_cc.so.2', cc),
          framework: describe('libtensorflow_framework.so.2', framework),
        },
      },
    },
  };
  const lockFile = join(dir, 'tensorflow.lock.json');
  writeFileSync(lockFile, JSON.stringify(lock));
  return { wheelFile, lockFile, lock };
}

function describe(file: string, content: Buffer): FakeFile {
  return { file, size: content.length, sha256: createHash('sha256').update(content).digest('hex') };
}

export interface PackageIndex {
  /** Resumes suspended downloads. */
  readonly release: () => void;
  readonly url: string;
  /** The number of requests for the wheel. */
  readonly downloads: () => number;
  /** The number of downloads in progress. */
  readonly open: () => number;
  readonly close: () => Promise<void>;
}

/** Serves the wheel; with `isHeld`, downloads stop halfway until `release`. */
export async function servePackages(wheelFile: string, isHeld = false): Promise<PackageIndex> {
  const wheel = readFileSync(wheelFile);
  let downloads = 0;
  let open = 0;
  let release = () => {};
  const released = isHeld
    ? new Promise<void>((resolve) => {
        release = resolve;
      })
    : undefined;
  const server = createServer(async (request, response) => {
    if (!request.url?.endsWith('.whl')) {
      response.setHeader('content-type', 'text/html');
      response.end(`<a href="/files/${WHEEL}">${WHEEL}</a>`);
      return;
    }
    downloads++;
    open++;
    response.on('close', () => open--);
    response.setHeader('content-length', wheel.length);
    const half = wheel.length >> 1;
    response.write(wheel.subarray(0, half));
    await released;
    response.end(wheel.subarray(half));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/simple`,
    downloads: () => downloads,
    open: () => open,
    release,
    close: () =>
      new Promise((resolve) => {
        release();
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function zip(files: Readonly<Record<string, Buffer>>): Buffer {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const [name, content] of Object.entries(files)) {
    const packed = deflateRawSync(content, { level: 1 });
    const local = Buffer.alloc(30);
    local.writeUInt32LE(0x04034b50, 0);
    const common = Buffer.alloc(26);
    common.writeUInt16LE(20, 0);
    common.writeUInt16LE(8, 4);
    common.writeUInt16LE(0x21, 8);
    common.writeUInt32LE(crc32(content), 10);
    common.writeUInt32LE(packed.length, 14);
    common.writeUInt32LE(content.length, 18);
    common.writeUInt16LE(Buffer.byteLength(name), 22);
    common.copy(local, 4);
    parts.push(local, Buffer.from(name), packed);
    const entry = Buffer.alloc(46);
    entry.writeUInt32LE(0x02014b50, 0);
    entry.writeUInt16LE(20, 4);
    common.copy(entry, 6);
    entry.writeUInt32LE(offset, 42);
    directory.push(entry, Buffer.from(name));
    offset += 30 + Buffer.byteLength(name) + packed.length;
  }
  const listing = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(Object.keys(files).length, 8);
  end.writeUInt16LE(Object.keys(files).length, 10);
  end.writeUInt32LE(listing.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...parts, listing, end]);
}
