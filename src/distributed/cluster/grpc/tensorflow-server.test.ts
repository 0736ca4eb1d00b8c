import { readFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { describe, expect, it } from 'vitest';
import { ClusterServer } from '../runtime/cluster-server.js';
import { parseAddress } from '../spec/address.js';
import { ClusterSpec } from '../spec/cluster-spec.js';
import { taskId } from '../spec/task-id.js';
import type { GrpcEngine } from './grpc-engine.js';
import { TensorFlowServer } from './tensorflow-server.js';

const LISTEN = '0A';
const isLinux = process.platform === 'linux';

/** The addresses that listen on a port, as the kernel lists them: hexadecimal, each 32-bit word in host order. */
function listeners(port: number): readonly string[] {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  return ['/proc/net/tcp', '/proc/net/tcp6'].flatMap((file) =>
    readFileSync(file, 'utf8')
      .split('\n')
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      .filter(([, local, , state]) => local?.endsWith(suffix) && state === LISTEN)
      .map(([, local]) => local!.slice(0, -suffix.length)),
  );
}

function tryConnect(host: string, port: number): Promise<string> {
  return new Promise((done) => {
    const socket = connect({ host, port }, () => {
      socket.destroy();
      done('connected');
    });
    socket.once('error', (error: NodeJS.ErrnoException) => done(error.code ?? error.message));
  });
}

/** Addresses of this machine other than 127.0.0.1. */
function otherAddresses(): readonly string[] {
  const own = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  const usable = own.filter(({ address }) => address !== '127.0.0.1' && !address.startsWith('fe80'));
  return ['127.0.0.2', ...usable.map(({ address }) => address)];
}

const MAPPED_LOOPBACK = '0000000000000000FFFF00000100007F';
const PLAIN_LOOPBACK = '0100007F';

describe.runIf(isLinux)('the port of TensorFlow', () => {
  it('is open on the address of the agent only', async () => {
    const { address, bind } = await TensorFlowServer.start({ host: '127.0.0.1' });
    const { port } = parseAddress(address);
    expect(bind).toEqual({ confined: true });
    const open = listeners(port);
    expect(open).toHaveLength(1);
    expect([MAPPED_LOOPBACK, PLAIN_LOOPBACK]).toContain(open[0]);
    expect(await tryConnect('127.0.0.1', port)).toBe('connected');
    for (const other of otherAddresses()) {
      expect(`${other} ${await tryConnect(other, port)}`).toBe(`${other} ECONNREFUSED`);
    }
  });

  it('is open on all interfaces for an agent that listens on all, with a warning', async () => {
    const notices: string[] = [];
    const server = await ClusterServer.create({
      spec: new ClusterSpec({ ps: ['127.0.0.1:1'], worker: ['127.0.0.1:2'] }),
      self: taskId('ps', 0),
      engine: 'grpc',
      security: { kind: 'token', token: 'a-token-for-this-test' },
      listen: '0.0.0.0:0',
      onNotice: (line) => notices.push(line),
    });
    const { port } = parseAddress((server.engine as GrpcEngine).tensorflow.address);
    expect(await tryConnect('127.0.0.2', port)).toBe('connected');
    expect(notices.join('\n')).toMatch(new RegExp(`port ${port} is open on all network interfaces`));
    await server.close();
  });

  it('uses the address that the agent’s host name resolves to', async () => {
    const server = await ClusterServer.create({
      spec: new ClusterSpec({ ps: ['localhost:1'], worker: ['127.0.0.1:2'] }),
      self: taskId('ps', 0),
      engine: 'grpc',
      security: { kind: 'none' },
      listen: 'localhost:0',
    });
    const { tensorflow } = server.engine as GrpcEngine;
    expect(tensorflow.bind).toEqual({ confined: true });
    const { host, port } = parseAddress(tensorflow.address);
    expect(await tryConnect(host, port)).toBe('connected');
    expect(await tryConnect('127.0.0.2', port)).toBe('ECONNREFUSED');
    await server.close();
  });

  it('of another machine causes a configuration error', async () => {
    await expect(TensorFlowServer.start({ host: '127.0.0.1', listen: '192.0.2.1' })).rejects.toThrow(
      expect.objectContaining({
        code: 'SHOAL_CONFIG',
        message: "TensorFlow's server cannot listen on 192.0.2.1:0: it is not an address of this machine",
      }),
    );
  });

  it('that is in use causes an error that names it', async () => {
    const taken = createServer();
    await new Promise<void>((done) => taken.listen(0, '127.0.0.1', done));
    const { port } = taken.address() as { port: number };
    await expect(TensorFlowServer.start({ host: '127.0.0.1', port })).rejects.toThrow(
      expect.objectContaining({
        code: 'SHOAL_ADDRESS_IN_USE',
        message: `TensorFlow's server cannot listen on 127.0.0.1:${port}: another process uses this port`,
      }),
    );
    await new Promise((done) => taken.close(done));
  });
});

it('refuses a host name as listen address', async () => {
  await expect(TensorFlowServer.start({ host: 'ps0.example' })).rejects.toThrow(/not an IP address/);
});
