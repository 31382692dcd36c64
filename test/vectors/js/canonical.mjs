// The canonical form of posted JSON. A parser of its own, because JSON.parse keeps the last of two equal names and rounds silently.
import { refuse, refuseIf } from './refusal.mjs';

const MAX_DEPTH = 100;
const MAX_NUMBER = 1100;
const malformed = () => refuse('content_malformed');

/** The canonical form of a JSON text, given as bytes. */
export const canonicalText = (bytes) => canonical(strictJSON(bytes));

/** The value of a JSON text, given as bytes, that has a canonical form. */
export function strictJSON(bytes) {
  let text;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    malformed();
  }
  const parser = new Parser(text);
  const value = parser.value(0);
  parser.space();
  if (parser.at !== text.length) malformed();
  return value;
}

/** The canonical form of a value. */
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const names = Object.keys(value).sort(); // by UTF-16 code units
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(',')}}`;
}

class Parser {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  space() {
    while (' \t\r\n'.includes(this.text[this.at] ?? 'x')) this.at++;
  }

  /** Takes a character if it comes next, after white space. */
  takes(character) {
    this.space();
    if (this.text[this.at] !== character) return false;
    this.at++;
    return true;
  }

  value(depth) {
    this.space();
    switch (this.text[this.at]) {
      case '{': return this.object(depth + 1);
      case '[': return this.array(depth + 1);
      case '"': return this.string();
    }
    for (const [literal, value] of [['true', true], ['false', false], ['null', null]]) {
      if (this.text.startsWith(literal, this.at)) {
        this.at += literal.length;
        return value;
      }
    }
    return this.number();
  }

  object(depth) {
    refuseIf(depth > MAX_DEPTH, 'content_malformed');
    this.at++;
    const out = Object.create(null);
    if (this.takes('}')) return out;
    do {
      this.space();
      if (this.text[this.at] !== '"') malformed();
      const name = this.string();
      if (name in out || !this.takes(':')) malformed();
      out[name] = this.value(depth);
    } while (this.takes(','));
    if (!this.takes('}')) malformed();
    return out;
  }

  array(depth) {
    refuseIf(depth > MAX_DEPTH, 'content_malformed');
    this.at++;
    const out = [];
    if (this.takes(']')) return out;
    do out.push(this.value(depth)); while (this.takes(','));
    if (!this.takes(']')) malformed();
    return out;
  }

  string() {
    const found = /^"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/.exec(this.text.slice(this.at));
    if (!found) malformed();
    this.at += found[0].length;
    const value = JSON.parse(found[0]);
    if (/\p{Surrogate}/u.test(value)) malformed(); // half a pair
    return value;
  }

  number() {
    const found = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/.exec(this.text.slice(this.at));
    if (!found) malformed();
    this.at += found[0].length;
    return exactly(found[0]);
  }
}

/** The double of a number's spelling, where no other content could have the same canonical form. */
function exactly(spelling) {
  const value = Number(spelling);
  const given = decimal(spelling);
  const lossy = spelling.length > MAX_NUMBER || !Number.isFinite(value) || (value === 0 && given.digits !== '') ||
    (Math.abs(value) >= 2 ** 53 && (given.digits !== decimal(String(value)).digits || given.exponent !== decimal(String(value)).exponent));
  refuseIf(lossy, 'content_malformed');
  return value;
}

/** The digits of a number without zeros before or after, and the power of ten of the last one. */
function decimal(spelling) {
  const [, whole, fraction = '', exponent = '0'] = /^-?([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/.exec(spelling);
  const digits = (whole + fraction).replace(/^0+/, '');
  const significant = digits.replace(/0+$/, '');
  return { digits: significant, exponent: Number(exponent) - fraction.length + digits.length - significant.length };
}
