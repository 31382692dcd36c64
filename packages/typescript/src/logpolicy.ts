// Whose signatures a checkpoint of the transparency log needs (c2sp.org/tlog-policy), and checkpoints themselves
// (c2sp.org/signed-note, tlog-checkpoint, tlog-cosignature).
import { type Bytes, concat, fromBase64, sha256, sizeOf, toBase64, utf8, verifies } from './bytes.js';
import { refuse, refuseIf } from './refusal.js';

export const MAX_CHECKPOINT = 32 * 1024;
const MAX_POLICY = 64 * 1024;
const MAX_MEMBERS = 32;
const MAX_SIGNATURES = 100;
const MAX_SECONDS = 253_402_300_800; // the year 10000

/** Who saw a checkpoint, and when in Unix seconds. */
export interface Cosignature { witness: string; time: number }

export interface Checkpoint { origin: string; size: number; root: Bytes; text: string }

interface Key { name: string; id: string; key: CryptoKey; cosigns: boolean; public: string }

/** A quorum: a witness by its name, or some of several. */
type Quorum = string | { threshold: number; of: Quorum[] };

export interface Policy {
  origin: string;
  logs: Key[];
  witnesses: { name: string; key: Key }[];
  /** Nothing if the log's own signature is enough. */
  quorum: Quorum | undefined;
}

/** Reads a policy with one log, which has a line for each of its keys (config_malformed). */
export async function parsePolicy(text: string): Promise<Policy> {
  const bad = (why: string): never => refuse('config_malformed', `the log's policy: ${why}`);
  if (sizeOf(text) > MAX_POLICY || /[^\S \t\n]|[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/.test(text)) {
    bad('it is too large, or has other white space than space, tab and newline');
  }
  const p: Policy = { origin: '', logs: [], witnesses: [], quorum: undefined };
  const parts = new Map<string, Quorum>();
  const grouped = new Set<string>();
  let quorum: string | undefined;
  const define = (name: string, part: Quorum): void => {
    if (name === 'none' || parts.has(name)) bad(`${name} has a meaning already`);
    parts.set(name, part);
  };
  for (const line of text.split('\n')) {
    const [keyword, ...words] = line.replace(/#.*/s, '').split(/[ \t]+/).filter((word) => word !== '');
    const [name = '', second = '', third] = words;
    switch (keyword) {
      case undefined: break;
      case 'log': {
        const key = await readKey(name, 1) ?? bad(`${name} is no key of a log`);
        if (p.logs.some((other) => other.id === key.id)) bad('it names a key twice');
        if (p.origin !== '' && p.origin !== key.name) bad('it names a second log');
        p.origin = key.name;
        p.logs.push(key);
        break;
      }
      case 'witness': {
        const key = await readKey(second, 4) ?? bad(`${second} is no key of a witness`);
        if (third !== undefined && !isWitnessURL(third)) bad(`${third} is no URL of a witness`);
        if (p.witnesses.some((w) => w.key.public === key.public)) bad('two witnesses have one key');
        define(name, name);
        p.witnesses.push({ name, key });
        break;
      }
      case 'group': {
        const of = words.slice(2).map((child) => {
          if (grouped.has(child)) bad(`${child} is in a group already`);
          grouped.add(child);
          return parts.get(child) ?? bad(`it groups ${child}, which it has not defined`);
        });
        const number = /^[+]?[0-9]+$/.test(second) ? Number(second) : 0;
        const threshold = second === 'any' ? 1 : second === 'all' ? of.length : number;
        if (threshold < 1 || threshold > of.length) bad(`the group ${name} has no such threshold`);
        define(name, { threshold, of });
        break;
      }
      case 'quorum':
        if (quorum !== undefined || name === '') bad('it must define one quorum');
        quorum = name;
        break;
      default: bad(`the keyword ${keyword} is not known`);
    }
    if (Math.max(p.logs.length, p.witnesses.length) > MAX_MEMBERS) bad('it has too many witnesses or keys');
  }
  if (p.logs.length === 0) bad('it names no log');
  p.quorum = quorum === 'none' ? undefined : parts.get(quorum ?? '') ?? bad('it defines no quorum');
  return p;
}

function isWitnessURL(text: string): boolean {
  try {
    const { protocol, host, username, password, search } = new URL(text);
    return ['https:', 'http:'].includes(protocol) && host !== '' && username + password + search === '';
  } catch {
    return false;
  }
}

const isName = (name: string): boolean => name !== '' && !/[\s+]/u.test(name);

/** Reads a vkey of c2sp.org/signed-note: NAME+HASH+KEY, whose key begins with its algorithm. */
async function readKey(vkey: string, algorithm: number): Promise<Key | undefined> {
  const [, name = '', id = '', text = ''] = /^([^+]*)\+([0-9a-fA-F]{8})\+(.*)$/s.exec(vkey) ?? [];
  const raw = fromBase64(text);
  if (!isName(name) || raw?.length !== 33 || raw[0] !== algorithm) return undefined;
  if (idOf(await sha256(concat(utf8(`${name}\n`), raw))) !== id.toLowerCase()) return undefined;
  const key = await crypto.subtle.importKey('raw', raw.slice(1), 'Ed25519', false, ['verify']).catch(() => undefined);
  return key && { name, id: id.toLowerCase(), key, cosigns: algorithm === 4, public: toBase64(raw) };
}

const idOf = (bytes: Uint8Array): string =>
  Array.from(bytes.subarray(0, 4), (b) => b.toString(16).padStart(2, '0')).join('');

/** The text and the signatures of a signed note. */
export function cutNote(signed: string): { text: string; signatures: string } | undefined {
  const at = signed.lastIndexOf('\n\n');
  return at < 0 ? undefined : { text: signed.slice(0, at + 1), signatures: signed.slice(at + 2) };
}

/** Reads the text of a checkpoint without its signatures. */
export function parseCheckpoint(text: string): Checkpoint | undefined {
  const [origin, size, hash, ...rest] = text.split('\n');
  const root = fromBase64(hash ?? '');
  const ends = rest.length > 0 && rest.at(-1) === '' && rest.slice(0, -1).every((line) => line !== '');
  if (!ends || !/^(0|[1-9][0-9]{0,18})$/.test(size!) || root?.length !== 32) return undefined;
  return { origin: origin!, size: Number(size), root, text };
}

/** A checkpoint that the policy accepts (log_unwitnessed), and the witnesses of the policy that cosigned it. */
export async function openCheckpoint(signed: string, p: Policy):
  Promise<{ c: Checkpoint; witnesses: Cosignature[] }> {
  refuseIf(sizeOf(signed) > MAX_CHECKPOINT, 'evidence_malformed', 'a checkpoint is too large');
  const bad = (why: string): never =>
    refuse('log_unwitnessed', `the checkpoint is not signed and cosigned as the policy demands: ${why}`);
  const { text, signatures } = cutNote(signed) ?? bad('it has no signatures');
  if (/[\u0000-\u0009\u000b-\u001f]/.test(signed) || !signatures.endsWith('\n')) bad('it is malformed');
  const lines = signatures.split('\n').slice(0, -1);
  if (lines.length > MAX_SIGNATURES) bad('it has too many signatures');
  const counted = new Set(p.quorum === undefined ? [] : namesIn(p.quorum));
  const known = [...p.logs, ...p.witnesses.filter(({ name }) => counted.has(name)).map(({ key }) => key)];
  const times = new Map<Key, number>();
  for (const line of lines) {
    const [, name = '', base64 = ''] = /^\u2014 ([^ ]*) (.+)$/s.exec(line) ?? bad('a signature is malformed');
    const raw = fromBase64(base64);
    if (!isName(name) || !raw || raw.length < 5) return bad('a signature is malformed');
    const by = known.find((key) => key.name === name && key.id === idOf(raw));
    if (!by || times.has(by)) continue;
    times.set(by, await signedAt(by, text, raw.slice(4)) ?? bad(`the signature by ${name} is wrong`));
  }
  const c = parseCheckpoint(text) ?? bad('it is malformed');
  if (c.origin !== p.origin || !p.logs.some((key) => times.has(key))) bad('the log has not signed it');
  const seen = p.witnesses.filter(({ key }) => times.has(key));
  if (p.quorum !== undefined && !satisfied(p.quorum, new Set(seen.map(({ name }) => name)))) bad('it lacks witnesses');
  return { c, witnesses: seen.map(({ name, key }) => ({ witness: name, time: times.get(key)! }))
    .filter(({ time }) => time < MAX_SECONDS) };
}

const namesIn = (q: Quorum): string[] => (typeof q === 'string' ? [q] : q.of.flatMap(namesIn));

const satisfied = (q: Quorum, by: Set<string>): boolean =>
  (typeof q === 'string' ? by.has(q) : q.of.filter((part) => satisfied(part, by)).length >= q.threshold);

/** The time of a right signature: 0 for the log's own, which has none. */
async function signedAt(by: Key, text: string, signature: Bytes): Promise<number | undefined> {
  const c = parseCheckpoint(text);
  if (!by.cosigns) {
    const right = signature.length === 64 && await verifies(by.key, signature, utf8(text));
    return right ? 0 : undefined;
  }
  if (signature.length !== 72 || !c || text.split('\n')[2] !== toBase64(c.root)) return undefined;
  const time = new DataView(signature.buffer).getBigUint64(0);
  const signed = utf8(`cosignature/v1\ntime ${time}\n${text}`);
  return await verifies(by.key, signature.slice(8), signed) ? Number(time) : undefined;
}
