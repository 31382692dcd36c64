// Strict JSON and its canonical form (RFC 8785). JSON.parse keeps the last of two equal names and rounds silently, so
// this is a reader of its own.
import { sizeOf, textOf } from './bytes.js';
import { Refusal, refuse } from './refusal.js';

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Members = { [name: string]: Json };

const MAX_DEPTH = 100;
const MAX_ITEMS = 200_000; // names and values
const MAX_NUMBER = 1100; // characters

const malformed = (why = 'no canonical form (RFC 8785)'): never =>
  refuse('content_malformed', `the JSON content has ${why}`);

export interface Strictness {
  /** Refuses numbers that are not spelled as whole ones. */
  whole?: boolean;
  /** How many names and values this text and later ones may have together; 200,000 for this one. */
  room?: { items: number };
}

/** The value of a JSON text that has a canonical form. It refuses any other (content_malformed). */
export function strictJSON(input: string | Uint8Array, how: Strictness = {}): Json {
  const text = typeof input === 'string' ? input : textOf(input) ?? malformed();
  const reader = new Reader(text, how.whole ?? false, how.room ?? { items: MAX_ITEMS });
  const value = reader.value(0);
  reader.space();
  return reader.at === text.length ? value : malformed();
}

/** The canonical form of a JSON value. */
export function canonical(value: Json): string {
  if (isSorted(value)) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  const of = value as Members;
  const names = Object.keys(of).sort(); // by UTF-16 code units
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(of[name]!)}`).join(',')}}`;
}

/** Whether all names are in order already, as in what the mediator writes: then JSON.stringify is canonical. */
function isSorted(value: Json): boolean {
  if (Array.isArray(value)) return value.every(isSorted);
  if (value === null || typeof value !== 'object') return true;
  let last = '';
  for (const name of Object.keys(value)) {
    if (name < last || !isSorted(value[name]!)) return false;
    last = name;
  }
  return true;
}

const STRING = /"[^"\\\u0000-\u001f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\u0000-\u001f]*)*"/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const WORD = /true|false|null/y;

class Reader {
  at = 0;

  constructor(private readonly text: string, private readonly whole: boolean,
    private readonly room: { items: number }) {}

  space(): void {
    while (this.at < this.text.length && ' \t\r\n'.includes(this.text[this.at]!)) this.at++;
  }

  value(depth: number): Json {
    this.space();
    this.count();
    switch (this.text[this.at]) {
      case '{': return this.object(depth + 1);
      case '[': return this.list(depth + 1);
      case '"': return this.string();
      case 't': case 'f': case 'n': return JSON.parse(this.next(WORD));
    }
    return this.number();
  }

  private count(): void {
    if (this.room.items-- <= 0) malformed('too many values');
  }

  /** Takes a character if it comes next, after white space. */
  private takes(character: string): boolean {
    this.space();
    if (this.text[this.at] !== character) return false;
    this.at++;
    return true;
  }

  private object(depth: number): Json {
    if (depth > MAX_DEPTH) malformed();
    this.at++;
    const out: Members = Object.create(null);
    if (this.takes('}')) return out;
    do {
      this.space();
      this.count();
      const name = this.string();
      if (name in out || !this.takes(':')) malformed();
      out[name] = this.value(depth);
    } while (this.takes(','));
    return this.takes('}') ? out : malformed();
  }

  private list(depth: number): Json {
    if (depth > MAX_DEPTH) malformed();
    this.at++;
    const out: Json[] = [];
    if (this.takes(']')) return out;
    do out.push(this.value(depth)); while (this.takes(','));
    return this.takes(']') ? out : malformed();
  }

  private next(pattern: RegExp): string {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0] ?? malformed();
    this.at += found.length;
    return found;
  }

  private string(): string {
    const spelled = this.next(STRING);
    if (!spelled.includes('\\')) return spelled.slice(1, -1);
    const value: string = JSON.parse(spelled);
    return value.isWellFormed() ? value : malformed();
  }

  private number(): number {
    const spelled = this.next(NUMBER);
    if (this.whole && !/^-?[0-9]+$/.test(spelled)) malformed();
    return exactly(spelled);
  }
}

/** The double of a number's spelling, unless another content would have the same canonical form. */
function exactly(spelled: string): number {
  if (spelled.length > MAX_NUMBER) malformed();
  const value = Number(spelled);
  if (!Number.isFinite(value)) malformed();
  if (Math.abs(value) > 0 && Math.abs(value) < 2 ** 53) return value;
  const [given, kept] = [decimal(spelled), decimal(String(value))];
  return given.digits === kept.digits && given.exponent === kept.exponent ? value : malformed();
}

/** The digits of a number without zeros at both ends, and the power of ten of the last one. */
function decimal(spelled: string): { digits: string; exponent: number } {
  const [, whole, fraction = '', exponent = '0'] = /^-?([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/.exec(spelled)!;
  const digits = (whole + fraction).replace(/^0+/, '');
  if (digits === '') return { digits, exponent: 0 };
  const significant = digits.replace(/0+$/, '');
  return { digits: significant, exponent: Number(exponent) - fraction.length + digits.length - significant.length };
}

/** Reads a document of whole numbers of a known form: an empty value of each member. Missing and null are empty. */
export function document<T extends Json>(input: string | Uint8Array, form: T, limit: number, code: string): T {
  try {
    if ((typeof input === 'string' ? sizeOf(input) : input.length) > limit) malformed();
    return fit(form, strictJSON(input, { whole: true })) as T;
  } catch (error) {
    throw error instanceof Refusal ? new Refusal(code, 'the document is malformed, or has a member that is not known')
      : error;
  }
}

/** A list's form is a list of one item, and a map's is an object with the one name *. */
function fit(form: Json, value: Json | undefined): Json {
  const missing = value === null || value === undefined;
  if (Array.isArray(form)) {
    if (missing) return [];
    return Array.isArray(value) ? value.map((item) => fit(form[0]!, item)) : malformed();
  }
  if (form === null || typeof form !== 'object') {
    if (missing) return form;
    return typeof value === typeof form ? value : malformed();
  }
  const of = missing ? {} : value;
  if (typeof of !== 'object' || of === null || Array.isArray(of)) return malformed();
  const out: Members = Object.create(null);
  for (const name of Object.keys(of)) {
    const inner = Object.hasOwn(form, '*') ? form['*'] : Object.hasOwn(form, name) ? form[name] : undefined;
    out[name] = inner === undefined ? malformed() : fit(inner, of[name]);
  }
  for (const name of Object.keys(form)) if (name !== '*') out[name] ??= fit(form[name]!, undefined);
  return out;
}
