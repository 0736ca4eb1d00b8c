/**
 * One HTTP/2 connection that sends the same gRPC request again and again, from prebuilt bytes. It does only what a
 * measurement needs, so that the client costs a fraction of what a server does: header blocks are written without
 * compression state and those of replies are not read. A reply counts as good if it has as many bytes as expected;
 * errors of gRPC have no message.
 */
import { connect } from 'node:net';

const DATA = 0;
const HEADERS = 1;
const RST_STREAM = 3;
const SETTINGS = 4;
const PING = 6;
const GOAWAY = 7;
const WINDOW_UPDATE = 8;
const END_STREAM = 1;
const ACK = 1;
const FRAME_HEAD = 9;
const MAX_WINDOW = 2 ** 31 - 1;
const INITIAL_WINDOW = 65_535;
/** The window is refilled after this many bytes. */
const REFILL = 2 ** 30;

function frame(type, flags, stream, payload) {
  const bytes = Buffer.alloc(FRAME_HEAD + payload.length);
  bytes.writeUIntBE(payload.length, 0, 3);
  bytes[3] = type;
  bytes[4] = flags;
  bytes.writeUInt32BE(stream, 5);
  payload.copy(bytes, FRAME_HEAD);
  return bytes;
}

function uint32(value) {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** A header as a literal that is not indexed (RFC 7541, 6.2.2); names and values below 127 bytes. */
function header(name, value) {
  const text = (string) => Buffer.concat([Buffer.from([string.length]), Buffer.from(string)]);
  return Buffer.concat([Buffer.from([0]), text(name), text(value)]);
}

export class GrpcConnection {
  #socket;
  #headers;
  #body;
  #nextStream = 1;
  #received = new Map();
  #rest = Buffer.alloc(0);
  #toRefill = 0;
  #connectionWindow = INITIAL_WINDOW;
  #streamWindow = INITIAL_WINDOW;
  #maxFrame = 16_384;
  /** Requests whose body waits for the window of the peer: stream, offset of the next byte, its own window. */
  #blocked = [];

  /** `message`: the serialized request. `onReply(stream, bytes)` is called with the length of each reply's body. */
  constructor({ port, path, message, onReply, onError }) {
    this.onReply = onReply;
    this.#body = Buffer.concat([Buffer.from([0]), uint32(message.length), message]);
    const block = Buffer.concat([
      header(':method', 'POST'),
      header(':scheme', 'http'),
      header(':path', path),
      header(':authority', `127.0.0.1:${port}`),
      header('te', 'trailers'),
      header('content-type', 'application/grpc'),
    ]);
    this.#headers = frame(HEADERS, 4, 0, block);
    this.#socket = connect({ port, host: '127.0.0.1', noDelay: true });
    const settings = Buffer.from([0, 2, 0, 0, 0, 0, 0, 4, 0x7f, 0xff, 0xff, 0xff]);
    this.#socket.write(
      Buffer.concat([
        Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
        frame(SETTINGS, 0, 0, settings),
        frame(WINDOW_UPDATE, 0, 0, uint32(MAX_WINDOW - INITIAL_WINDOW)),
      ]),
    );
    this.#socket.on('data', (chunk) => this.#read(chunk));
    this.#socket.on('error', onError);
    this.#socket.on('close', () => onError(new Error('the server closed the connection')));
    this.ready = new Promise((resolve) => {
      this.onSettings = resolve;
    });
  }

  /** Sends a request and returns the number of its stream. */
  send() {
    const id = this.#nextStream;
    this.#nextStream += 2;
    this.#received.set(id, 0);
    const head = Buffer.from(this.#headers);
    head.writeUInt32BE(id, 5);
    const isSmall =
      this.#blocked.length === 0 &&
      this.#body.length <= Math.min(this.#maxFrame, this.#connectionWindow, this.#streamWindow);
    if (isSmall) {
      this.#connectionWindow -= this.#body.length;
      this.#socket.write(Buffer.concat([head, frame(DATA, END_STREAM, id, this.#body)]));
      return id;
    }
    this.#socket.write(head);
    this.#blocked.push({ id, offset: 0, window: this.#streamWindow });
    this.#flush();
    return id;
  }

  #flush() {
    for (let i = 0; i < this.#blocked.length; ) {
      const request = this.#blocked[i];
      while (request.offset < this.#body.length) {
        const left = this.#body.length - request.offset;
        const size = Math.min(left, this.#maxFrame, this.#connectionWindow, request.window);
        if (size <= 0) break;
        const flags = size === left ? END_STREAM : 0;
        const payload = this.#body.subarray(request.offset, request.offset + size);
        this.#socket.write(frame(DATA, flags, request.id, payload));
        request.offset += size;
        request.window -= size;
        this.#connectionWindow -= size;
      }
      if (request.offset === this.#body.length) this.#blocked.splice(i, 1);
      else i += 1;
    }
  }

  #read(chunk) {
    let bytes = this.#rest.length > 0 ? Buffer.concat([this.#rest, chunk]) : chunk;
    while (bytes.length >= FRAME_HEAD) {
      const end = FRAME_HEAD + bytes.readUIntBE(0, 3);
      if (bytes.length < end) break;
      const stream = bytes.readUInt32BE(5) & MAX_WINDOW;
      this.#handle(bytes[3], bytes[4], stream, bytes.subarray(FRAME_HEAD, end));
      bytes = bytes.subarray(end);
    }
    this.#rest = bytes;
  }

  #handle(type, flags, stream, payload) {
    if (type === DATA) {
      this.#received.set(stream, (this.#received.get(stream) ?? 0) + payload.length);
      this.#toRefill += payload.length;
      if (this.#toRefill >= REFILL) {
        this.#socket.write(frame(WINDOW_UPDATE, 0, 0, uint32(this.#toRefill)));
        this.#toRefill = 0;
      }
    } else if (type === SETTINGS && !(flags & ACK)) this.#settings(payload);
    else if (type === PING && !(flags & ACK)) this.#socket.write(frame(PING, ACK, 0, payload));
    else if (type === WINDOW_UPDATE) {
      const size = payload.readUInt32BE(0);
      if (stream === 0) this.#connectionWindow += size;
      else for (const request of this.#blocked) if (request.id === stream) request.window += size;
      if (this.#blocked.length > 0) this.#flush();
    } else if (type === GOAWAY) this.#socket.destroy(new Error('the server sent GOAWAY'));
    const isEnd = type === RST_STREAM || ((type === DATA || type === HEADERS) && flags & END_STREAM);
    if (!isEnd || !this.#received.has(stream)) return;
    const received = this.#received.get(stream);
    this.#received.delete(stream);
    this.onReply(stream, type === RST_STREAM ? 0 : received);
  }

  #settings(payload) {
    for (let at = 0; at + 6 <= payload.length; at += 6) {
      const value = payload.readUInt32BE(at + 2);
      const id = payload.readUInt16BE(at);
      if (id === 5) this.#maxFrame = Math.min(value, 1 << 20);
      if (id !== 4) continue;
      for (const request of this.#blocked) request.window += value - this.#streamWindow;
      this.#streamWindow = value;
    }
    this.#socket.write(frame(SETTINGS, ACK, 0, Buffer.alloc(0)));
    this.onSettings();
    this.#flush();
  }

  close() {
    this.#socket.removeAllListeners('close');
    this.#socket.on('error', () => {});
    this.#socket.destroy();
  }
}
