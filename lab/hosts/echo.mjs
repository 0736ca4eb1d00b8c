/**
 * A program for lab hosts that tests connections.
 *
 *   echo.mjs serve ADDRESS           prints "port N"; echoes its input
 *   echo.mjs talk ADDRESS PORT       sends a count every 20 ms; prints "reply N", "error CODE", "end"
 *   echo.mjs rate ADDRESS PORT BYTES sends so many bytes, waits for them all; prints "took MS"
 */
import net from 'node:net';

const [mode, host, port, bytes] = process.argv.slice(2);

if (mode === 'serve') {
  const server = net.createServer((socket) => {
    socket.setNoDelay(true);
    socket.on('error', () => socket.destroy());
    socket.pipe(socket);
  });
  server.listen(0, host, () => console.log(`port ${server.address().port}`));
} else {
  const start = performance.now();
  const socket = net.connect(Number(port), host);
  socket.setNoDelay(true);
  socket.on('error', (error) => console.log(`error ${error.code}`));
  socket.on('end', () => console.log('end'));
  if (mode === 'talk') {
    let count = 0;
    socket.setEncoding('utf8').on('data', (text) => {
      for (const line of text.trim().split('\n')) console.log(`reply ${line}`);
    });
    socket.on('connect', () => {
      const timer = setInterval(() => socket.write(`${count++}\n`), 20);
      socket.on('close', () => clearInterval(timer));
    });
  } else {
    let back = 0;
    socket.on('connect', () => socket.write(Buffer.alloc(Number(bytes))));
    socket.on('data', (data) => {
      back += data.length;
      if (back < Number(bytes)) return;
      console.log(`took ${performance.now() - start}`);
      socket.destroy();
    });
  }
}
