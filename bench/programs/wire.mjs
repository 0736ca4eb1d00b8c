// One end of a loopback connection: bulk transfers and round trips, through a Connection and through a bare socket.
// Responds to {"do": "listen"} with {"ports"}, to {"do": "connect", "ports"} with {}, and to {"do": "bulk", "via", "mb",
// "count"} and {"do": "ping", "via", "seconds"} with {"value": GB/s or round trips per second}.
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { Connection } from '../../dist/distributed/engine/wire/connection.js';
import { Tensor } from '../../dist/tensorflow/tensor/tensor.js';

const MB = 1_000_000;
const NO_HEAD = new Uint8Array(0);
const LIMITS = { maxQueuedBytes: Infinity };
const scalar = Tensor.of(1);

async function listen(serve) {
  const server = createServer({ noDelay: true }, serve).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server.address().port;
}

/** Answers every message with a scalar. */
function answerMessages(socket) {
  const connection = new Connection(socket, {
    label: 'the sender',
    limits: LIMITS,
    onClose: () => {},
    onMessage: ({ id, tensors }) => {
      for (const tensor of tensors) tensor.dispose();
      connection.send({ kind: 1, id, head: NO_HEAD, tensors: [scalar] });
    },
  });
}

/** Answers with one byte when as many bytes as a length prefix says have arrived and were copied to one memory. */
function answerBytes(socket) {
  let memory = Buffer.alloc(0);
  let at = 0;
  let left = 0;
  socket.on('data', (chunk) => {
    if (left === 0) {
      left = chunk.readDoubleLE();
      at = 0;
      if (memory.length < left) memory = Buffer.alloc(left);
      chunk = chunk.subarray(8);
    }
    memory.set(chunk, at);
    at += chunk.length;
    left -= chunk.length;
    if (left === 0) socket.write(Buffer.of(1));
  });
}

let connection;
let socket;
let answered = () => {};

const links = {
  shoal: {
    tensors: new Map(),
    send(bytes) {
      if (bytes === 0) {
        connection.send({ kind: 0, id: 1, head: NO_HEAD, tensors: [scalar] });
        return;
      }
      if (!this.tensors.has(bytes)) {
        const tensor = Tensor.allocate([bytes / 4], 'float32');
        for (let at = 0; at < bytes; at += MB) tensor.setBytes(new Uint8Array(MB).fill(at / MB), at);
        this.tensors.set(bytes, tensor);
      }
      connection.send({ kind: 0, id: 1, head: NO_HEAD, tensors: [this.tensors.get(bytes)] });
    },
  },
  bare: {
    buffers: new Map(),
    ping: Buffer.alloc(12),
    send(bytes) {
      if (bytes === 0) {
        this.ping.writeDoubleLE(4);
        socket.write(this.ping);
        return;
      }
      if (!this.buffers.has(bytes)) this.buffers.set(bytes, Buffer.alloc(bytes, 1));
      const prefix = Buffer.alloc(8);
      prefix.writeDoubleLE(bytes);
      socket.cork();
      socket.write(prefix);
      socket.write(this.buffers.get(bytes));
      socket.uncork();
    },
  },
};

const exchange = (via, bytes) =>
  new Promise((resolve) => {
    answered = resolve;
    links[via].send(bytes);
  });

/** Round trips without a promise for each, which would be a large part of the time. */
const pings = (via, seconds) =>
  new Promise((resolve) => {
    const start = performance.now();
    let count = 0;
    answered = () => {
      count += 1;
      const elapsed = performance.now() - start;
      if (elapsed < seconds * 1000) links[via].send(0);
      else resolve((count / elapsed) * 1000);
    };
    links[via].send(0);
  });

const commands = {
  async listen() {
    return { ports: { shoal: await listen(answerMessages), bare: await listen(answerBytes) } };
  },
  async connect({ ports }) {
    const open = async (port) => {
      const made = connect({ port, host: '127.0.0.1', noDelay: true });
      await once(made, 'connect');
      return made;
    };
    const onMessage = () => answered();
    const onClose = (error) => {
      throw error;
    };
    connection = new Connection(await open(ports.shoal), {
      label: 'the receiver',
      limits: LIMITS,
      onMessage,
      onClose,
    });
    socket = (await open(ports.bare)).on('data', () => answered());
    return {};
  },
  async bulk({ via, mb, count }) {
    const start = performance.now();
    for (let i = 0; i < count; i++) await exchange(via, mb * MB);
    return { value: (count * mb) / (performance.now() - start) };
  },
  async ping({ via, seconds }) {
    return { value: await pings(via, seconds) };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  console.log(JSON.stringify(await commands[request.do](request)));
}
process.exit(0);
