// Structured fields (RFC 9651), as far as signatures of HTTP messages use them: no dates and no display strings.
import { fromBase64, toBase64 } from './bytes.js';

/** A token, to tell it from a string. */
export class Token { constructor(readonly text: string) {} }
export type Bare = boolean | bigint | number | string | Token | Uint8Array;
export type Params = Map<string, Bare>;
export interface Item { value: Bare; params: Params }
export interface InnerList { items: Item[]; params: Params }
export type Member = Item | InnerList;
export type Dictionary = Map<string, Member>;

/** The dictionary of a field's lines, or nothing if they are malformed. */
export const parseDictionary = (lines: readonly string[]): Dictionary | undefined =>
  whole(lines.join(', '), (r) => r.dictionary());

/** An inner list alone. */
export const parseInnerList = (text: string): InnerList | undefined => whole(text, (r) => r.innerList());

function whole<T>(text: string, read: (r: Reader) => T): T | undefined {
  const r = new Reader(text.replace(/^ +| +$/g, ''));
  try {
    const value = read(r);
    return r.rest === '' ? value : undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

const bad = (): never => {
  throw new SyntaxError('not a structured field');
};

class Reader {
  constructor(public rest: string) {}

  /** Takes what a pattern finds at the beginning. */
  private take(pattern: RegExp): RegExpExecArray | undefined {
    const found = pattern.exec(this.rest) ?? undefined;
    if (found) this.rest = this.rest.slice(found[0].length);
    return found;
  }

  private key = (): string => this.take(/^[a-z*][a-z0-9_\-.*]*/)?.[0] ?? bad();

  dictionary(): Dictionary {
    const out: Dictionary = new Map();
    while (this.rest !== '') {
      const key = this.key();
      const member = this.take(/^=/) ? this.member() : { value: true, params: this.params() };
      out.delete(key); // the last one counts, in its place
      out.set(key, member);
      if (this.rest === '') break;
      if (!this.take(/^[ \t]*,[ \t]*/) || this.rest === '') bad();
    }
    return out;
  }

  private member = (): Member => (this.rest.startsWith('(') ? this.innerList() : this.item());

  innerList(): InnerList {
    this.take(/^\(/) ?? bad();
    const items: Item[] = [];
    for (this.take(/^ +/); !this.take(/^\)/);) {
      items.push(this.item());
      if (!this.take(/^ +/) && !this.rest.startsWith(')')) bad();
    }
    return { items, params: this.params() };
  }

  private item = (): Item => ({ value: this.bare(), params: this.params() });

  private params(): Params {
    const out: Params = new Map();
    while (this.take(/^; */)) {
      const key = this.key();
      const value = this.take(/^=/) ? this.bare() : true;
      out.delete(key);
      out.set(key, value);
    }
    return out;
  }

  private bare(): Bare {
    const text = this.take(/^"((?:[ !#-[\]-~]|\\["\\])*)"/);
    if (text) return text[1]!.replace(/\\(.)/g, '$1');
    const bytes = this.take(/^:([A-Za-z0-9+/=]*):/);
    if (bytes) return fromBase64(bytes[1]!) ?? bad();
    const flag = this.take(/^\?([01])/);
    if (flag) return flag[1] === '1';
    const decimal = this.take(/^-?[0-9]{1,12}\.[0-9]{1,3}(?![0-9.])/);
    if (decimal) return Number(decimal[0]);
    const whole = this.take(/^-?[0-9]{1,15}(?![0-9.])/);
    if (whole) return BigInt(whole[0]);
    const token = this.take(/^[A-Za-z*][A-Za-z0-9!#$%&'*+\-.^_`|~:/]*/);
    return token ? new Token(token[0]) : bad();
  }
}

/** The one spelling of a member. */
export function spell(member: Member): string {
  if ('items' in member) return `(${member.items.map(spell).join(' ')})${spellParams(member.params)}`;
  return spellBare(member.value) + spellParams(member.params);
}

const spellParams = (params: Params): string =>
  [...params].map(([key, value]) => `;${key}${value === true ? '' : `=${spellBare(value)}`}`).join('');

function spellBare(value: Bare): string {
  if (typeof value === 'string') return `"${value.replace(/["\\]/g, '\\$&')}"`;
  if (typeof value === 'boolean') return value ? '?1' : '?0';
  if (value instanceof Token) return value.text;
  if (value instanceof Uint8Array) return `:${toBase64(value)}:`;
  return typeof value === 'number' && Number.isInteger(value) ? `${value}.0` : `${value}`;
}
