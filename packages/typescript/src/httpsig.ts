// Signatures of HTTP messages (RFC 9421) with Ed25519, and content digests (RFC 9530).
import { type Bytes, fromBase64, sha256, toBase64url, utf8, verifies } from './bytes.js';
import { HeaderList, escapedPath } from './request.js';
import { type Dictionary, type InnerList, type Item, type Params, parseDictionary, parseInnerList,
  spell } from './sfv.js';

/** A request, or the response to one. */
export interface Message {
  /** Of a request. */
  method?: string;
  /** Of a request: absolute, as the sender addressed it. */
  url?: string;
  /** Of a response. */
  status?: number;
  headers: HeaderList;
  /** What a response answers. */
  request?: Message;
}

/** Public keys by their thumbprints (RFC 7638). */
export type Keys = Map<string, Bytes>;

const MAX_COMPONENTS = 32;
const MAX_BASE = 16 * 1024;
const MAX_FIELD = 8 * 1024;
const MAX_KEYS = 16;
const PARAMS = '"@signature-params": ';

/** What is wrong with a signature; its reader decides what that means. */
export class SignatureError extends Error {}

const wrong = (sentence: string): never => {
  throw new SignatureError(sentence);
};

export const thumbprint = async (x: Uint8Array): Promise<string> =>
  toBase64url(await sha256(utf8(`{"crv":"Ed25519","kty":"OKP","x":"${toBase64url(x)}"}`)));

/** Reads PEM public keys, of which all must be Ed25519. */
export async function parseKeys(pem: string): Promise<Keys> {
  const keys: Keys = new Map();
  for (const [, text] of pem.matchAll(/-----BEGIN PUBLIC KEY-----([^-]*)-----END PUBLIC KEY-----/g)) {
    const der = fromBase64(text!.replace(/\s/g, ''));
    const key = await crypto.subtle.importKey('spki', der ?? new Uint8Array(), 'Ed25519', true, ['verify'])
      .catch(() => wrong('a public key is not an Ed25519 key in PEM'));
    const x = new Uint8Array(await crypto.subtle.exportKey('raw', key));
    keys.set(await thumbprint(x), x);
  }
  return keys.size > 0 && keys.size <= MAX_KEYS ? keys : wrong(`a file has 1 to ${MAX_KEYS} public keys in PEM`);
}

/** The value of a component, such as @status, content-digest or @method;req. */
export const valueOf = (m: Message, component: string): string => value(m, componentOf(component));

function componentOf(component: string): Item {
  const [name, ...params] = component.split(';');
  const list = parseInnerList(`("${name}"${params.map((p) => `;${p}`).join('')})`);
  return list?.items[0] ?? wrong(`${component} is no component`);
}

function value(m: Message, { value: name, params }: Item): string {
  if (typeof name !== 'string') return wrong("a component's name is not a string");
  let member: string | undefined;
  for (const [param, of] of params) {
    if (param === 'key' && typeof of === 'string' && !name.startsWith('@')) member = of;
    else if (param !== 'req' || of !== true) wrong(`the component ${name} has a parameter that is not known here`);
    else m = (m.status === undefined ? undefined : m.request) ?? wrong(`${name} is of a request, and there is none`);
  }
  const text = name.startsWith('@') ? derived(m, name) : member === undefined ? field(m.headers, name)
    : memberOf(m.headers, name, member);
  return /^[\t -~]*$/.test(text) ? text : wrong(`${name} is not plain ASCII`);
}

function derived(m: Message, name: string): string {
  if (m.status !== undefined) return name === '@status' ? String(m.status) : wrong(`a response has no ${name}`);
  const [, scheme = '', host = '', rest = ''] = /^([a-zA-Z][a-zA-Z0-9+.-]*):\/\/([^/?#]+)([^#]*)/.exec(m.url ?? '') ??
    wrong('the request has no absolute target');
  const port = { http: ':80', https: ':443' }[scheme.toLowerCase()];
  const lower = host.toLowerCase();
  const authority = port && lower.endsWith(port) ? lower.slice(0, -port.length) : lower;
  const at = rest.indexOf('?');
  const path = escapedPath((at < 0 ? rest : rest.slice(0, at)) || '/');
  switch (name) {
    case '@method': return m.method ?? '';
    case '@target-uri': return `${scheme.toLowerCase()}://${authority}${path}${at < 0 ? '' : rest.slice(at)}`;
    case '@authority': return authority;
    case '@scheme': return scheme.toLowerCase();
    case '@path': return path;
    case '@query': return at < 0 ? '?' : rest.slice(at);
  }
  return wrong(`the component ${name} is not known here`);
}

function field(headers: HeaderList, name: string): string {
  const lines = headers.all(name);
  if (!/^[!#$%&'*+\-.^_`|~0-9a-z]+$/.test(name) || lines.length === 0) wrong(`the message has no field ${name}`);
  return lines.map((line) => line.replace(/^[ \t]+|[ \t]+$/g, '')).join(', ');
}

function memberOf(headers: HeaderList, name: string, key: string): string {
  field(headers, name);
  return spell(dictionary(headers, name).get(key) ?? wrong(`the field ${name} has no member ${key}`));
}

/** Reads a field that is a dictionary; absent, it is empty. */
function dictionary(headers: HeaderList, name: string): Dictionary {
  const lines = headers.all(name);
  if (lines.reduce((size, line) => size + line.length + 2, 0) > MAX_FIELD) wrong(`the field ${name} is too large`);
  return parseDictionary(lines) ?? wrong(`the field ${name} is malformed`);
}

function baseOf(m: Message, covered: InnerList): string {
  if (covered.items.length > MAX_COMPONENTS) wrong('the signature covers too many components');
  const seen = new Set<string>();
  const lines = covered.items.map((id) => {
    const name = spell(id);
    if (seen.has(name)) wrong(`${name} is covered twice`);
    seen.add(name);
    return `${name}: ${value(m, id)}\n`;
  });
  const base = `${lines.join('')}${PARAMS}${spell(covered)}`;
  return base.length <= MAX_BASE ? base : wrong('the signature base is too long');
}

const KNOWN: [string, 'bigint' | 'string'][] = [['created', 'bigint'], ['expires', 'bigint'], ['nonce', 'string'],
  ['keyid', 'string'], ['alg', 'string'], ['tag', 'string']];

/** Parameters of a signature. Times are Unix seconds. */
export interface SignatureParams {
  created?: number; expires?: number; nonce?: string; keyid?: string; alg?: string; tag?: string;
}

function paramsOf(params: Params): SignatureParams {
  const out: Record<string, unknown> = {};
  for (const [name, of] of params) {
    const type = KNOWN.find(([known]) => known === name)?.[1];
    if (typeof of !== type) wrong(`the parameter ${name} is not known here, or of another type`);
    out[name] = typeof of === 'bigint' ? Number(of) : of;
  }
  return out;
}

/** What a signature must be. */
export interface ExpectedSignature {
  /** All must be covered. */
  components: string[];
  keys: Keys;
  /** Exactly one signature must have it. */
  tag: string;
  /** Seconds. */
  now: number;
  maxAge: number;
  skew: number;
}

/** A verified signature. */
export interface Signed { base: string; covered: string[]; params: SignatureParams }

/** Verifies the one signature with the expected tag, and refuses what it does not know (SignatureError). */
export async function verifyMessage(m: Message, want: ExpectedSignature): Promise<Signed> {
  const inputs = [...dictionary(m.headers, 'signature-input')].map(([label, member]): [string, InnerList] =>
    [label, 'items' in member ? member : wrong('Signature-Input is not a list of components')]);
  const found = inputs.filter(([, { params }]) => params.get('tag') === want.tag);
  const [label, covered] = found.length === 1 ? found[0]!
    : wrong(`${found.length} signatures have the tag ${want.tag}, not one`);
  const p = paramsOf(covered.params);
  const { created = 0, expires } = p;
  if ((p.alg ?? 'ed25519') !== 'ed25519') wrong('the algorithm is not ed25519');
  if (created <= 0 || created > want.now + want.skew) wrong('the signature has no time of creation, or a later one');
  if (created < want.now - want.maxAge - want.skew) wrong('the signature is too old');
  if (expires !== undefined && expires <= want.now - want.skew) wrong('the signature has expired');
  const names = covered.items.map(spell);
  const lacking = want.components.find((c) => !names.includes(spell(componentOf(c))));
  if (lacking !== undefined) wrong(`the signature does not cover ${lacking}`);
  const member = dictionary(m.headers, 'signature').get(label);
  const signature = member && 'value' in member && member.value instanceof Uint8Array ? member.value as Bytes
    : wrong(`the message has no signature ${label}`);
  const base = baseOf(m, covered);
  const key = want.keys.get(p.keyid ?? '') ?? wrong(`the key ${p.keyid} is not expected`);
  return { ...await openBase(base, signature, key), base, covered: names };
}

/** Verifies a signature over a base, and returns what the base says. */
export async function openBase(base: string, signature: Uint8Array, x: Uint8Array):
  Promise<{ values: Map<string, string>; params: SignatureParams }> {
  const by = base.length <= MAX_BASE && x.length === 32 &&
    await crypto.subtle.importKey('raw', x as Bytes, 'Ed25519', false, ['verify']).catch(() => undefined);
  if (!by || !await verifies(by, signature, utf8(base))) {
    return wrong('the signature is not by this key over this base');
  }
  const lines = base.split('\n');
  const last = lines.pop()!;
  const covered = parseInnerList(last.startsWith(PARAMS) ? last.slice(PARAMS.length) : '');
  if (!covered || PARAMS + spell(covered) !== last || covered.items.length !== lines.length) {
    return wrong("the base's parameters are not those of its components");
  }
  const values = new Map<string, string>();
  for (const [i, id] of covered.items.entries()) {
    const name = spell(id);
    const component = name.slice(1).replace('"', '');
    if (!lines[i]!.startsWith(`${name}: `) || values.has(component)) wrong(`line ${i + 1} of the base is not ${name}`);
    values.set(component, lines[i]!.slice(name.length + 2));
  }
  return { values, params: paramsOf(covered.params) };
}

/** A private key that signs answers, with its thumbprint. */
export interface SigningKey { key: CryptoKey; id: string }

/** The fields that sign a message: signature-input and signature. */
export async function signMessage(m: Message, label: string, components: string[], by: SigningKey,
  params: { created: number; tag: string }): Promise<{ 'signature-input': string; signature: string }> {
  const covered: InnerList = {
    items: components.map(componentOf),
    params: new Map<string, bigint | string>([['created', BigInt(params.created)], ['keyid', by.id],
      ['tag', params.tag]]),
  };
  const signature = new Uint8Array(await crypto.subtle.sign('Ed25519', by.key, utf8(baseOf(m, covered))));
  return {
    'signature-input': `${label}=${spell(covered)}`,
    signature: `${label}=${spell({ value: signature, params: new Map() })}`,
  };
}

/** The value of Content-Digest for a SHA-256. */
export const contentDigest = (sum: Uint8Array): string =>
  `sha-256=${spell({ value: sum, params: new Map() })}`;

/** The SHA-256 that a message's Content-Digest names, or nothing. */
export function readContentDigest(headers: HeaderList): Uint8Array | undefined {
  const member = parseDictionary(headers.all('content-digest'))?.get('sha-256');
  const sum = member && 'value' in member ? member.value : undefined;
  return sum instanceof Uint8Array && sum.length === 32 ? sum : undefined;
}
