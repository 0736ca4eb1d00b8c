/** Progress of a long operation: a line that is redrawn on a terminal, a line every few seconds elsewhere. */

const LINE_EVERY_MS = 5_000;
const REDRAW_EVERY_MS = 200;

/** @param {{ label: string, total: number, stream?: NodeJS.WriteStream, now?: () => number }} options */
export function startProgress({ label, total, stream = process.stderr, now = Date.now }) {
  const live = stream.isTTY === true;
  const started = now();
  let last = live ? 0 : started;
  const text = (bytes) => {
    const percent = total > 0 ? ` (${Math.min(100, Math.floor((bytes / total) * 100))} %)` : '';
    return `shoal: ${label}: ${megabytes(bytes)} of ${megabytes(total)} MB${percent}`;
  };
  return {
    update(bytes) {
      if (now() - last < (live ? REDRAW_EVERY_MS : LINE_EVERY_MS)) return;
      last = now();
      stream.write(live ? `\r\x1b[2K${text(bytes)}` : `${text(bytes)}\n`);
    },
    end(ok) {
      if (live) stream.write('\r\x1b[2K');
      if (ok) stream.write(`shoal: ${label}: ${megabytes(total)} MB in ${seconds(now() - started)}\n`);
    },
  };
}

export function megabytes(bytes) {
  return bytes < 10_000_000 ? (bytes / 1e6).toFixed(1) : String(Math.round(bytes / 1e6));
}

export function seconds(ms) {
  return ms < 10_000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms / 1000)} s`;
}
