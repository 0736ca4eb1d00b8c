/**
 * Reads protobuf's text format into plain objects, by a description of the fields. Errors name the line and the column,
 * and the fields that exist.
 */
import { ShoalError } from '../../../base/errors/errors.js';

export type Field =
  | { readonly kind: 'string' | 'int' | 'bool' | 'number' | 'enum'; readonly repeated?: boolean }
  | { readonly kind: 'message'; readonly fields: Fields; readonly repeated?: boolean }
  /** A map from strings to integers. */
  | { readonly kind: 'map' };
export type Fields = Readonly<Record<string, Field>>;

export type Message = Readonly<Record<string, unknown>>;

interface Token {
  readonly kind: 'word' | 'string' | 'mark' | 'end';
  readonly text: string;
  readonly at: number;
}

const TOKEN =
  /(?<space>(?:\s|#[^\n]*)+)|(?<word>[A-Za-z_][\w.]*|[-+]?(?:0[xX][\da-fA-F]+|\d+\.?\d*(?:[eE][-+]?\d+)?f?|\.\d+))|(?<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?<mark>[{}<>[\]:,;])/gy;

const ENTRY: Fields = { key: { kind: 'string' }, value: { kind: 'int' } };

class Parser {
  readonly #text: string;
  readonly #source: string;
  readonly #tokens: readonly Token[];
  #next = 0;

  constructor(text: string, source: string) {
    this.#text = text;
    this.#source = source;
    this.#tokens = this.#scan();
  }

  #scan(): Token[] {
    const tokens: Token[] = [];
    const pattern = new RegExp(TOKEN);
    while (pattern.lastIndex < this.#text.length) {
      const at = pattern.lastIndex;
      const groups = pattern.exec(this.#text)?.groups;
      if (!groups) throw this.#error(`unexpected ${JSON.stringify(this.#text[at])}`, at);
      const { word, string, mark } = groups;
      if (word !== undefined) tokens.push({ kind: 'word', text: word, at });
      else if (string !== undefined) tokens.push({ kind: 'string', text: string, at });
      else if (mark !== undefined) tokens.push({ kind: 'mark', text: mark, at });
    }
    tokens.push({ kind: 'end', text: 'the end of the file', at: this.#text.length });
    return tokens;
  }

  /** The fields up to `close`, or to the end of the text. */
  message(fields: Fields, close?: string): Message {
    const result: Record<string, unknown> = {};
    for (;;) {
      const token = this.#take();
      if (token.kind === 'end' && close === undefined) return result;
      if (close !== undefined && token.text === close && token.kind === 'mark') return result;
      if (token.kind !== 'word')
        throw this.#error(
          `expected the name of a field${close ? ` or ${close}` : ''}, got ${token.text}`,
          token.at,
        );
      this.#field(fields, token, result);
      if (this.#is(',') || this.#is(';')) this.#take();
    }
  }

  #field(fields: Fields, { text: name, at }: Token, result: Record<string, unknown>): void {
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (!field)
      throw this.#error(`there is no field ${name}; the fields are ${Object.keys(fields).join(', ')}`, at);
    const isList = this.#colon() && this.#is('[');
    if (!isList) {
      this.#put(field, name, at, result);
      return;
    }
    this.#take();
    if (field.kind !== 'map' && !field.repeated) throw this.#error(`${name} takes one value, not a list`, at);
    while (!this.#is(']')) {
      this.#put(field, name, at, result);
      if (this.#is(',')) this.#take();
      else if (!this.#is(']')) throw this.#error(`expected , or ] in the list ${name}`, this.#peek().at);
    }
    this.#take();
  }

  #put(field: Field, name: string, at: number, result: Record<string, unknown>): void {
    const value = this.#value(field, name);
    if (field.kind === 'map') {
      const { key = '', value: item = 0 } = value as { key?: string; value?: number };
      result[name] = { ...(result[name] as object | undefined), [key]: item };
    } else if (field.repeated) {
      const list = (result[name] ?? []) as unknown[];
      list.push(value);
      result[name] = list;
    } else if (result[name] !== undefined) {
      throw this.#error(`${name} is given twice`, at);
    } else result[name] = value;
  }

  #value(field: Field, name: string): unknown {
    const token = this.#take();
    const wrong = (expected: string) => this.#error(`${name} takes ${expected}, not ${token.text}`, token.at);
    switch (field.kind) {
      case 'message':
      case 'map': {
        if (token.text !== '{' && token.text !== '<') throw wrong('a message in { }');
        return this.message(field.kind === 'map' ? ENTRY : field.fields, token.text === '{' ? '}' : '>');
      }
      case 'string': {
        if (token.kind !== 'string') throw wrong('a string in quotes');
        let text = this.#unquoted(token);
        // Adjacent strings are one.
        while (this.#peek().kind === 'string') text += this.#unquoted(this.#take());
        return text;
      }
      case 'int': {
        const value = token.kind === 'word' ? Number(token.text) : Number.NaN;
        if (!Number.isSafeInteger(value)) throw wrong('an integer');
        return value;
      }
      case 'number': {
        const value = token.kind === 'word' ? Number(token.text.replace(/f$/, '')) : Number.NaN;
        if (Number.isNaN(value)) throw wrong('a number');
        return value;
      }
      case 'bool': {
        if (token.kind !== 'word' || !/^(true|True|t|1|false|False|f|0)$/.test(token.text))
          throw wrong('true or false');
        return /^(t|1)/i.test(token.text);
      }
      default:
        if (token.kind !== 'word') throw wrong('a name');
        return token.text;
    }
  }

  #unquoted({ text, at }: Token): string {
    const escapes: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r' };
    return text.slice(1, -1).replace(/\\([0-7]{1,3}|x[\da-fA-F]{1,2}|.)/g, (_all, code: string) => {
      if (/^[0-7]/.test(code)) return String.fromCharCode(Number.parseInt(code, 8));
      if (/^x./.test(code)) return String.fromCharCode(Number.parseInt(code.slice(1), 16));
      const plain = /^["'\\?]$/.test(code) ? code : escapes[code];
      if (plain === undefined) throw this.#error(`\\${code} is not an escape sequence`, at);
      return plain;
    });
  }

  #colon(): boolean {
    if (this.#is(':')) this.#take();
    return true;
  }

  #is(mark: string): boolean {
    const { kind, text } = this.#peek();
    return kind === 'mark' && text === mark;
  }

  #peek(): Token {
    return this.#tokens[this.#next] as Token;
  }

  #take(): Token {
    const token = this.#peek();
    if (token.kind !== 'end') this.#next += 1;
    return token;
  }

  #error(what: string, at: number): ShoalError {
    const before = this.#text.slice(0, at).split('\n');
    const line = before.length;
    const column = (before.at(-1) as string).length + 1;
    return new ShoalError('SHOAL_CONFIG', `${this.#source}, line ${line}, column ${column}: ${what}`);
  }
}

/** `source` names the text in errors. */
export const parseTextProto = (text: string, fields: Fields, source: string): Message =>
  new Parser(text, source).message(fields);
