/** Notices that the reader of the output is gone, as in `shoal status --watch | head -1`. */

export interface OutputStream {
  on(event: 'error', listener: (error: NodeJS.ErrnoException) => void): unknown;
}

/**
 * Aborts at the first error of a stream; the reason is the error. Long commands then stop as after Ctrl-C, short ones end
 * by themselves. Without a listener the error would end the process at once, with a stack.
 */
export function closedOutput(streams: readonly OutputStream[]): AbortSignal {
  const closed = new AbortController();
  for (const stream of streams) stream.on('error', (error) => closed.abort(error));
  return closed.signal;
}

/** Whether the reader has ended, which is not an error of this process: a full disk is one. */
export const isReaderGone = (error: unknown): boolean =>
  error instanceof Error && ['EPIPE', 'EIO'].includes((error as NodeJS.ErrnoException).code ?? '');
