// A request as the mediator bound it: what could make a server read another request than the signed one is refused.
import { hash, utf8 } from './bytes.js';
import { canonical, strictJSON } from './json.js';
import { refuse, refuseIf } from './refusal.js';

export const CAPABILITY = 'actionproof-capability';
export const REQUEST_PROOF = 'actionproof-request-proof';

/** Headers as [name, value] pairs, as a Headers object, or as Node's object of them. */
export type HeadersLike = Iterable<readonly [string, string]> | Record<string,
  string | readonly string[] | undefined>;

export class HeaderList {
  private readonly values = new Map<string, string[]>();
  /** Whether equal names may already be joined by commas, as Headers and Node's object do. */
  private readonly joined: boolean;

  constructor(headers: HeadersLike) {
    this.joined = !Array.isArray(headers);
    const pairs = Symbol.iterator in headers ? headers as Iterable<readonly [string,
      string]> : Object.entries(headers);
    for (const [name, value] of pairs as Iterable<readonly [string, string | readonly string[] | undefined]>) {
      const all = value === undefined ? [] : typeof value === 'string' ? [value] : value;
      const key = name.toLowerCase();
      this.values.set(key, [...this.values.get(key) ?? [], ...all]);
    }
  }

  all(name: string): string[] {
    return this.values.get(name) ?? [];
  }

  get(name: string): string {
    return this.all(name)[0] ?? '';
  }

  /** The value of a header that must be there once, without a comma, which would be two of them. */
  once(name: string): string {
    const [value = '', ...more] = this.all(name);
    if (value === '' || more.length > 0 || (this.joined && value.includes(','))) {
      refuse('proof_missing',
        `the request must carry the header ${name} exactly once; a bearer token alone is not enough`);
    }
    return value;
  }

  /** The headers with one in place of all with its name. */
  with(name: string, value: string): HeaderList {
    const out = new HeaderList([...this.values].flatMap(([of, all]) => all.map((v) => [of, v] as const)));
    out.values.set(name, [value]);
    return out;
  }

  names(): string[] {
    return [...this.values.keys()];
  }
}

const OVERRIDE = new RegExp('^(_+(http_?)?method(_?override)?|_*(x_)?(http_?)?method_?override|' +
  '_*x_(http|tunneled)_method)_*$');
const WRITES = ['POST', 'PUT', 'PATCH', 'DELETE'];

/** Refuses headers and parameters by which frameworks change the method (override_refused). */
export function checkOverrides(method: string, query: string, headers: HeaderList): void {
  const header = headers.names().find((name) => OVERRIDE.test(folded(name)));
  refuseIf(header, 'override_refused', `the header ${header} would change the method`);
  for (const parameter of query.split(/[&;]/).filter((p) => p !== '')) {
    const at = parameter.indexOf('=');
    const name = unescape(at < 0 ? parameter : parameter.slice(0, at));
    const value = unescape(at < 0 ? '' : parameter.slice(at + 1)).trim().toUpperCase();
    refuseIf(OVERRIDE.test(folded(name)) ||
      (folded(name) === 'method' && value !== method.toUpperCase() && WRITES.includes(value)), 'override_refused',
      `the parameter ${name.slice(0, 40)} would change the method`);
  }
}

const folded = (name: string) =>
  name.replace(/^ +/, '').split('\0', 1)[0]!.toLowerCase().replace(/[^a-z0-9]/gu, '_');

const unescape = (text: string) =>
  text.replaceAll('+', ' ').replace(/%([0-9A-Fa-f]{2})/g, (_, digits: string) => String.fromCharCode(parseInt(digits,
    16)));

/** The path and query of a URL, as they were sent. */
export function targetOf(url: string): { path: string; query: string | undefined } {
  const target = /^[a-z][a-z0-9+.-]*:\/\//i.test(url) ? url.replace(/^[^:]*:\/\/[^/?#]*/, '').replace(/#.*$/s,
    '') : url;
  const at = target.indexOf('?');
  return at < 0 ? { path: target, query: undefined } : { path: target.slice(0, at), query: target.slice(at + 1) };
}

const PLAIN = /^(?:[A-Za-z0-9\-_.~!$&'()*+,;=:@/[\]]|%[0-9A-Fa-f]{2})*$/;

/** The path as the mediator spells it: unchanged, unless it has a character that a path must escape. */
export function escapedPath(path: string): string {
  if (PLAIN.test(path)) return path;
  const bad = (): never => refuse('request_malformed', 'the path has an escape that is none');
  if (/%(?![0-9A-Fa-f]{2})/.test(path) || path === '') bad();
  const bytes = utf8(path.replace(/%([0-9A-Fa-f]{2})/g, (_, d: string) => `%${d}`));
  const raw: number[] = [];
  for (let i = 0; i < bytes.length; i++) {
    if (bytes[i] === 0x25) {
      raw.push(parseInt(String.fromCharCode(bytes[i + 1]!, bytes[i + 2]!), 16));
      i += 2;
    } else raw.push(bytes[i]!);
  }
  return raw.map((b) => (/[A-Za-z0-9\-_.~$&+,/:;=@]/.test(String.fromCharCode(b)) && b < 0x80
    ? String.fromCharCode(b) : `%${b.toString(16).toUpperCase().padStart(2, '0')}`)).join('');
}

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+/;

/** Refuses headers by which a body could mean something else than plain JSON in UTF-8 (content_malformed). */
export function checkJSON(headers: HeaderList): void {
  const bad = (what: string): never => refuse('content_malformed', what);
  const encodings = headers.all('content-encoding');
  if (encodings.length > 0 && !(encodings.length === 1 && encodings[0]!.toLowerCase() === 'identity')) {
    bad('the body has a Content-Encoding; this action takes plain JSON');
  }
  const types = headers.all('content-type');
  const media = types.length === 1 ? mediaType(types[0]!) : undefined;
  if (!media || !(media.type === 'application/json' || media.type.endsWith('+json'))) {
    return bad('the request must have one Content-Type, of JSON');
  }
  if ((media.parameters.get('charset') ?? 'utf-8').toLowerCase() !== 'utf-8') bad('the charset is not UTF-8');
}

/** A media type, or nothing if it is malformed, or has a parameter of RFC 2231, which could be another charset. */
function mediaType(text: string): { type: string; parameters: Map<string, string> } | undefined {
  if (text.includes('*')) return undefined;
  const [base = ''] = text.split(';', 1);
  const type = base.trim().toLowerCase();
  const [main = '', sub, ...more] = type.split('/');
  const whole = (part: string) => TOKEN.exec(part)?.[0] === part;
  if (!whole(main) || (sub !== undefined && !whole(sub)) || more.length > 0) return undefined;
  const parameters = new Map<string, string>();
  let rest = text.slice(base.length).trim();
  while (rest !== '' && rest !== ';') {
    const found =
      /^;\s*([!#$%&'*+\-.^_`|~0-9A-Za-z]+)\s*=\s*(?:([!#$%&'*+\-.^_`|~0-9A-Za-z]+)|"((?:[^"\\\r\n]|\\.)*)")/s
      .exec(rest);
    if (!found) return undefined;
    const name = found[1]!.toLowerCase();
    const value = found[2] ?? found[3]!.replace(/\\([()<>@,;:\\"/[\]?=])/g, '$1');
    if (parameters.has(name) && parameters.get(name) !== value) return undefined;
    parameters.set(name, value);
    rest = rest.slice(found[0].length).trimStart();
  }
  return { type, parameters };
}

/** The hash of a body: of its bytes, or of its JSON's canonical form. */
export const contentHash = (body: Uint8Array, raw: boolean): Promise<string> =>
  hash(raw ? body : canonical(strictJSON(body)));

/** The text of a header's value, of which servers make one character a byte. */
export const headerBytes = (value: string): Uint8Array => Uint8Array.from(value, (c) => c.charCodeAt(0));

