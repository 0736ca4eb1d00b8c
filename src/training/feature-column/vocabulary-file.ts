/** The number of lines of a vocabulary file, which may be large: it is read in pieces. */
import { closeSync, openSync, readSync } from 'node:fs';
import { resolve } from 'node:path';
import { invalid } from '../../base/errors/errors.js';

const PIECE = 1 << 20;
const NEWLINE = 10;

/** As TensorFlow counts: a last line without an end counts too. `what` has this vocabulary. */
export function countLines(what: string, path: string): number {
  const piece = Buffer.allocUnsafe(PIECE);
  let file: number | undefined;
  try {
    file = openSync(path, 'r');
    let [lines, last] = [0, NEWLINE];
    for (let size = readSync(file, piece); size > 0; size = readSync(file, piece)) {
      for (let at = piece.indexOf(NEWLINE); at >= 0 && at < size; at = piece.indexOf(NEWLINE, at + 1))
        lines++;
      last = piece[size - 1] as number;
    }
    return last === NEWLINE ? lines : lines + 1;
  } catch (cause) {
    throw invalid(`${what} cannot be read: ${path}`, {
      cause,
      hint:
        `The path is ${resolve(path)} on this machine. Every task that builds the graph needs the file under the same ` +
        'path. A short vocabulary can be part of the program: categoricalColumnWithVocabularyList.',
    });
  } finally {
    if (file !== undefined) closeSync(file);
  }
}
