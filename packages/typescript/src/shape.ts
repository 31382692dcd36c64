// The shapes of documents: which members they have, and of which types.
import { fromBase64, isHash, sizeOf } from './bytes.js';
import { type Json, type Members, canonical, strictJSON } from './json.js';
import { Refusal, refuse } from './refusal.js';

// t is a text of 1 to 2048 bytes, s any text, h a hash, T a time, y bytes in base64, b a boolean, i a whole number, f
// any number, l a list of t, n a list of s or null, m texts by any name. An object means one with these members,
// [object] a list of them. A ? marks what the mediator leaves out if it is empty.
export type Type = 't' | 's' | 'h' | 'T' | 'y' | 'b' | 'i' | 'f' | 'l' | 'n' | 'm' | Shape | [Shape];
export interface Shape { [name: string]: Type }

/** Gives several members one type. */
export const texts = <T extends Type>(type: T, ...names: string[]): Shape =>
  Object.fromEntries(names.map((n) => [n, type]));

export const within = (text: unknown, most: number) => typeof text === 'string' && text !== '' && isUpTo(text, most);
/** Whether a text has at most so many bytes: a UTF-16 code unit takes one to three. */
const isUpTo = (text: string, most: number) =>
  text.length * 3 <= most || (text.length <= most && sizeOf(text) <= most);

const ZERO_TIME = '0001-01-01T00:00:00Z';
const ZERO: Record<string, Json> = { t: '', s: '', h: '', T: ZERO_TIME, y: null, b: false, i: 0, f: 0, n: null };

const wrong = (what: string): never => refuse('evidence_malformed', `it has a member that is not ${what}`);

/** A value as the mediator writes it: without empty members that it leaves out, and with all others. */
export function normal(type: Type, value: Json): Json {
  if (typeof type === 'object') {
    if (!Array.isArray(type)) return members(type, value ?? {});
    return Array.isArray(value) ? value.map((item) => normal(type[0], item)) : wrong('a list');
  }
  if (value === null && Object.hasOwn(ZERO, type)) return ZERO[type]!;
  switch (type) {
    case 's': return typeof value === 'string' && value.isWellFormed() ? value : wrong('a text');
    case 't': return within(value, 2048) ? normal('s', value) : wrong('a text of that length');
    case 'h': return isHash(value) ? value : wrong('a hash');
    case 'b': return typeof value === 'boolean' ? value : wrong('true or false');
    case 'i': return Number.isSafeInteger(value) ? value : wrong('a whole number');
    case 'f': return typeof value === 'number' ? value : wrong('a number');
    case 'y': return typeof value === 'string' && fromBase64(value) ? value : wrong('base64');
    case 'l': return Array.isArray(value) ? value.map((item) => normal('t', item)) : wrong('a list of texts');
    case 'n': return Array.isArray(value) ? value.map((item) => normal('s', item)) : wrong('a list of texts');
    case 'm': return Object.fromEntries(Object.entries(objectOf(value ?? {})).map(([n, v]) => [n, normal('s', v)]));
    case 'T': return typeof value === 'string' ? timeOf(value) ?? wrong('a time') : wrong('a time');
  }
}

const objectOf = (value: Json): Members =>
  (typeof value === 'object' && value !== null && !Array.isArray(value) ? value : wrong('an object'));

function members(shape: Shape, value: Json): Members {
  const given = objectOf(value);
  const out: Members = {};
  for (const name of Object.keys(given)) { // in their order, which is often canonical
    const optional = !Object.hasOwn(shape, name);
    const named = optional ? `${name}?` : name;
    if ((optional && !Object.hasOwn(shape, named)) || name.endsWith('?')) wrong(`known: ${name}`);
    if (optional && given[name] === null) continue;
    const read = normal(shape[named]!, given[name]!);
    if (!optional || !isEmpty(read)) out[name] = read;
  }
  for (const name of Object.keys(shape)) {
    if (Object.hasOwn(out, name) || name.endsWith('?')) continue;
    const type = shape[name]!;
    out[name] = Array.isArray(type) || type === 'l' ? [] : normal(type, null);
  }
  return out;
}

const isEmpty = (value: Json): boolean => value === null || value === '' || value === 0 || value === false ||
  value === ZERO_TIME || (Array.isArray(value) && value.length === 0);

const TIME = /^\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/;

/** The one spelling of a time by RFC 3339, to the nanosecond. */
function timeOf(text: string): string | undefined {
  const [, fraction = '', zone = ''] = TIME.exec(text) ?? [];
  if (zone === '' || Number.isNaN(Date.parse(text))) return undefined;
  const local = text.slice(0, 19);
  if (new Date(`${local}Z`).toISOString().slice(0, 19) !== local) return undefined; // such as February 30
  const digits = fraction.slice(0, 10).replace(/\.?0*$/, '');
  return local + digits + (zone === '+00:00' ? 'Z' : zone);
}

/** The canonical form of a value as the mediator writes it, or nothing if a member is unknown or of another type. */
export function written(shape: Shape, value: Json): string | undefined {
  try {
    return canonical(members(shape, value));
  } catch (error) {
    if (error instanceof Refusal) return undefined;
    throw error;
  }
}

/** Reads a document of at most limit bytes, without fractions. A member that it lacks becomes empty. */
export function document<T>(input: string | Uint8Array, shape: Shape, limit: number, code: string): T {
  try {
    if ((typeof input === 'string' ? sizeOf(input) : input.length) > limit) wrong('so long');
    return members(shape, strictJSON(input, { whole: true }) ?? {}) as T;
  } catch (error) {
    throw error instanceof Refusal ? new Refusal(code, 'the document is malformed, or has a member that is not known')
      : error;
  }
}
