/**
 * Finds the position of the first JSON syntax error. Node reports it only for some errors, and a TF_CONFIG of two
 * thousand characters on one line needs it for all.
 */

export interface JsonMistake {
  /** Characters from the start of the text. */
  readonly offset: number;
  /** Both from 1. */
  readonly line: number;
  readonly column: number;
  readonly expected: string;
  /** The text around the error. */
  readonly near: string;
}

class Stop {
  constructor(
    readonly offset: number,
    readonly expected: string,
  ) {}
}

const NUMBER = /-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;
const SPACE = /[ \t\r\n]*/y;
const PLAIN = /[ !#-[\]-\uffff]*/y;
const ESCAPE = /\\(["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
const MAX_DEPTH = 200;

/** The first syntax error in a text; undefined when it is valid JSON. */
export function findJsonMistake(text: string): JsonMistake | undefined {
  let at = 0;
  const skip = (pattern: RegExp): boolean => {
    pattern.lastIndex = at;
    const found = pattern.test(text);
    if (found) at = pattern.lastIndex;
    return found;
  };
  const take = (token: string): boolean => {
    skip(SPACE);
    if (!text.startsWith(token, at)) return false;
    at += token.length;
    return true;
  };
  const need = (found: boolean, expected: string): void => {
    if (!found) throw new Stop(at, expected);
  };
  const stringTail = (): void => {
    for (;;) {
      skip(PLAIN);
      if (text[at] === '"') break;
      need(at < text.length, 'a closing quote');
      need(skip(ESCAPE), 'a character or an escape');
    }
    at++;
  };
  const list = (close: string, item: () => void, what: string): void => {
    if (take(close)) return;
    do item();
    while (take(','));
    need(take(close), what);
  };
  const value = (depth: number): void => {
    need(depth < MAX_DEPTH, `at most ${MAX_DEPTH} levels`);
    if (take('{')) {
      const pair = () => {
        need(take('"'), 'a key in double quotes');
        stringTail();
        need(take(':'), 'a colon');
        value(depth + 1);
      };
      list('}', pair, 'a comma or }');
    } else if (take('[')) list(']', () => value(depth + 1), 'a comma or ]');
    else if (take('"')) stringTail();
    else need(take('true') || take('false') || take('null') || skip(NUMBER), 'a value');
  };
  try {
    value(0);
    skip(SPACE);
    need(at === text.length, 'the end of the text');
    return undefined;
  } catch (stop) {
    if (!(stop instanceof Stop)) throw stop;
    const before = text.slice(0, stop.offset).split('\n');
    const near = text.slice(Math.max(0, stop.offset - 20), stop.offset + 20).replaceAll('\n', ' ');
    const column = before[before.length - 1]!.length + 1;
    return { offset: stop.offset, line: before.length, column, expected: stop.expected, near };
  }
}
