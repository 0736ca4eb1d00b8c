/**
 * One HTTP/1.1 connection that sends the same request again and again, from prebuilt bytes, one at a time. Of a reply it
 * reads the status and where it ends.
 */
import { connect } from 'node:net';

const HEAD_END = Buffer.from('\r\n\r\n');
const CHUNKS_END = Buffer.from('0\r\n\r\n');

export class RestConnection {
  #socket;
  #request;
  #parts = [];
  #size = 0;
  #end = 0;
  #isChunked = false;
  #isGood = false;

  /** `onReply(id, bytes)`: the length of the body; 0 if the status is not 200. */
  constructor({ port, path, message, onReply, onError }) {
    this.onReply = onReply;
    const head =
      `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${message.length}\r\n\r\n`;
    this.#request = Buffer.concat([Buffer.from(head), message]);
    this.#socket = connect({ port, host: '127.0.0.1', noDelay: true });
    this.#socket.on('data', (chunk) => this.#read(chunk));
    this.#socket.on('error', onError);
    this.#socket.on('close', () => onError(new Error('the server closed the connection')));
    this.ready = new Promise((resolve) => this.#socket.once('connect', resolve));
  }

  send() {
    this.#socket.write(this.#request);
    return 1;
  }

  #read(chunk) {
    this.#parts.push(chunk);
    this.#size += chunk.length;
    if (this.#end === 0) this.#readHead();
    if (this.#end === 0) return;
    if (this.#isChunked) {
      const tail = Buffer.concat(this.#parts.slice(-2));
      if (!tail.subarray(-CHUNKS_END.length).equals(CHUNKS_END)) return;
    } else if (this.#size < this.#end) return;
    const received = this.#isGood ? this.#size : 0;
    this.#parts = [];
    this.#size = 0;
    this.#end = 0;
    this.onReply(1, received);
  }

  #readHead() {
    const bytes = this.#parts.length > 1 ? Buffer.concat(this.#parts) : this.#parts[0];
    const at = bytes.indexOf(HEAD_END);
    if (at < 0) return;
    const head = bytes.latin1Slice(0, at);
    this.#isGood = head.startsWith('HTTP/1.1 200');
    this.#isChunked = /transfer-encoding: *chunked/i.test(head);
    this.#end = at + HEAD_END.length + Number(/content-length: *(\d+)/i.exec(head)?.[1] ?? 0);
  }

  close() {
    this.#socket.removeAllListeners('close');
    this.#socket.on('error', () => {});
    this.#socket.destroy();
  }
}
