// Proofs that the transparency log holds an entry (c2sp.org/tlog-proof), and what opens the entry.
import { type Bytes, concat, equal, fromBase64, hash, hex, isHash, sha256, sizeOf, textOf, toBase64, utf8 }
  from './bytes.js';
import { type Shape, fits } from './claims.js';
import { type Json, type Members, canonical, strictJSON } from './json.js';
import { type Checkpoint, type Cosignature, type Policy, MAX_CHECKPOINT, cutNote, openCheckpoint, parseCheckpoint }
  from './logpolicy.js';
import { Refusal, refuse, refuseIf } from './refusal.js';

const HEADER = 'c2sp.org/tlog-proof@v1';
const MAX_PROOF = 64 * 1024;
const MAX_HASHES = 63;
const MAX_OPENING = 8 * 1024;
const MAX_TIME = 253_402_300_800_000; // the year 10000
const MAX_LEAVES = 2 ** 53;

/** What happened, as an entry of the log says it. */
export interface Entry { commitment: string; kind: string; of?: string; time: number }
/** An entry with the document to which it commits. */
export interface Opening { document: Members; entry: Entry; salt: string }

/** What a proof shows. Witnesses saw the log with this entry; without any that is its operator's word. */
export interface Verified {
  opening: Opening;
  entryHash: Bytes;
  origin: string;
  index: number;
  size: number;
  root: Bytes;
  witnesses: Cosignature[];
}

interface Proof { opening: Bytes; index: number; hashes: Bytes[]; checkpoint: string }

const malformed = (why: string): never => refuse('evidence_malformed', why);

/** Reads the text of a .tlog-proof file, and verifies nothing. */
export function parseProof(text: string): Proof {
  const at = text.indexOf('\n\n');
  const [header, extra = '', index = '', ...rest] = text.slice(0, Math.max(at, 0)).split('\n');
  const bytes = (line: string): Bytes => {
    const value = fromBase64(line);
    return value && toBase64(value) === line ? value : malformed('the proof has a line that is not base64');
  };
  refuseIf(sizeOf(text) > MAX_PROOF || header !== HEADER || rest.length > MAX_HASHES || !extra.startsWith('extra ') ||
    !/^index (0|[1-9][0-9]{0,18})$/.test(index), 'evidence_malformed', `the text is no proof of the kind ${HEADER}`);
  const hashes = rest.map(bytes);
  refuseIf(hashes.some((h) => h.length !== 32), 'evidence_malformed', 'the proof has a line that is no hash');
  const checkpoint = text.slice(at + 2);
  const c = parseCheckpoint(cutNote(checkpoint)?.text ?? ''); // a malformed one has wrong signatures, too
  if (c) checkSize(c);
  return { opening: bytes(extra.slice(6)), index: Number(index.slice(6)), hashes, checkpoint };
}

function checkSize(c: Checkpoint): void {
  refuseIf(c.size > MAX_LEAVES, 'evidence_malformed', 'a checkpoint has too many entries');
}

const paired = ['session-opened', 'intent', 'outcome', 'session-closed'];
const openingShape: Shape = {
  document: Object.fromEntries([...'bundle code manifest post record requestProof session state'.split(' ')
    .map((name) => [`${name}?`, 's'] as const), ['status?', 'i'] as const]),
  entry: { commitment: 's', kind: 's', 'of?': 's', time: 'i' }, salt: 's',
};

/** Reads an opening, and checks that its entry commits to its document. */
async function openLeaf(raw: Bytes): Promise<Opening> {
  const text = textOf(raw) ?? malformed("the opening of a log's entry is no text");
  let given: Json = null;
  try {
    given = strictJSON(text);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
  }
  refuseIf(raw.length > MAX_OPENING || !fits(openingShape, given) || canonical(given) !== text, 'evidence_malformed',
    "the opening of a log's entry is malformed");
  const o = given as unknown as Opening;
  const { commitment, kind, of, time } = o.entry;
  const hasOf = paired.includes(kind);
  refuseIf((!hasOf && kind !== 'trust' && kind !== 'heartbeat') || !isHash(commitment) ||
    hasOf !== (of !== undefined) || (hasOf && !isHash(of)) || time < 0 || time >= MAX_TIME || !isHash(o.salt),
    'evidence_malformed',
    'an entry of the log is of an unknown kind, or lacks a hash or its time');
  const salt = Uint8Array.from(o.salt.match(/../g)!, (digits) => parseInt(digits, 16));
  const committed = hex(await sha256(concat(salt, utf8(canonical(o.document)))));
  const id = kind === 'intent' || kind === 'outcome' ? o.document.post : o.document.session;
  refuseIf(committed !== commitment || (hasOf && await hash((id ?? '') as string) !== of), 'record_mismatch',
    "the opening's document is not the one to which the log's entry commits");
  return o;
}

/**
 * Verifies a proof. Without a policy all is checked but the signatures, which anyone can have made: it shows only what
 * the proof says.
 */
export async function verifyProof(text: string, policy?: Policy): Promise<Verified> {
  const proof = parseProof(text);
  const opening = await openLeaf(proof.opening);
  const { c, witnesses } = policy ? await openCheckpoint(proof.checkpoint, policy) : unsigned(proof.checkpoint);
  checkSize(c);
  const entryHash = await sha256(concat(new Uint8Array([0]), utf8(canonical(opening.entry as never))));
  const root = proof.index < c.size ? await rootOf(proof.hashes, 0, c.size, proof.index, entryHash) : undefined;
  refuseIf(!root || !equal(root, c.root), 'record_mismatch',
    `the log does not hold the entry at the index ${proof.index}`);
  return { opening, entryHash, origin: c.origin, index: proof.index, size: c.size, root: c.root, witnesses };
}

function unsigned(checkpoint: string): { c: Checkpoint; witnesses: Cosignature[] } {
  const c = sizeOf(checkpoint) <= MAX_CHECKPOINT ? parseCheckpoint(cutNote(checkpoint)?.text ?? '') : undefined;
  return { c: c ?? malformed('the proof has no checkpoint that can be read'), witnesses: [] };
}

/** The root of the entries from low to high (RFC 9162 section 2.1), from a leaf's hash and its path; or nothing. */
async function rootOf(path: Bytes[], low: number, high: number, index: number, leaf: Bytes):
  Promise<Bytes | undefined> {
  if (low + 1 === high) return path.length === 0 ? leaf : undefined;
  const other = path.at(-1);
  if (!other) return undefined;
  let k = 1;
  while (k * 2 < high - low) k *= 2;
  const left = index < low + k;
  const own = await rootOf(path.slice(0, -1), left ? low : low + k, left ? low + k : high, index, leaf);
  return own && sha256(concat(new Uint8Array([1]), ...(left ? [own, other] : [other, own])));
}
