// Reads an export, as mediator posts export writes it: JSON Lines, each an object with one member.
import { fromBase64, textOf, sizeOf } from './bytes.js';
import type { Claims } from './claims.js';
import { type Json, type Members, document, strictJSON } from './json.js';
import { type Strict, parseManifest } from './manifest.js';
import { parseProof } from './proof.js';
import { Refusal, refuse, refuseIf } from './refusal.js';
import { type Root, Trust, parseRoot } from './trust.js';

const MAX_LINE = 1 << 20;
const MAX_SHARED = 64 << 20;
const MAX_TRUSTS = 512;
const MAX_RECORDS = 1 << 19;
// A name or a value takes many times its bytes in memory. Records have one in 30 bytes or more, but for texts that an
// agent chose, which take less.
const BYTES_PER_ITEM = 16;
const MAX_BUNDLE = 64 << 20;

/** The proofs of the log for a post's intent and outcome. An empty text is no proof. */
export interface Proofs { intent: string; outcome: string }

/** A record of a post. Empty members are left out, as the mediator leaves them out. */
export interface PostRecord extends Claims {
  id: string;
  flow: string;
  state: string;
  started: string;
  finished?: string;
  artifacts: { name: string; token: string }[];
}

/** A record with what came with it: receipts of its session, and proofs. */
export interface Exported { record: PostRecord; proofs: Proofs; receipts: string[] }

/** What one pair of roots has signed. */
export interface Trusted {
  roots: [registry: Root, auditor: Root];
  /** Certificates, the bundle's last. */
  certificates: string[];
  earlier: string[];
  /** The current list, or an empty text. */
  revocations: string;
  earlierRevocations: string[];
  manifests: Map<string, Strict>;
}

export interface Export { trusts: Trusted[]; records: Exported[] }

/** A pair of roots, with the texts of their public files and, if there is one, of a trust bundle. */
export interface Pins { registry: string; auditor: string; bundle?: string }

/** Reads a pair of roots, and a bundle that knows of the newest revocations. */
export async function readPins({ registry, auditor, bundle }: Pins): Promise<Trusted> {
  const t = await trusted(registry, auditor);
  if (bundle === undefined) return t;
  const form = { certificates: [''], deploymentCertificate: '', history: { segment: 0, texts: 0 }, revocations: '' };
  const b = document(bundle, form, MAX_BUNDLE, 'trust_malformed');
  return { ...t, certificates: b.certificates, revocations: b.revocations };
}

async function trusted(registry: string, auditor: string): Promise<Trusted> {
  const roots: Trusted['roots'] = [parseRoot(registry, 'signer_certificate'),
    parseRoot(auditor, 'deployment_certificate')];
  await Trust.open(roots, [], '', { issuers: [], audiences: [], keyIds: [], maxAge: 0, denyAgentAccessible: false,
    denyUserAccessible: false, maxRevocationAge: 0 });
  return { roots, certificates: [], earlier: [], revocations: '', earlierRevocations: [], manifests: new Map() };
}

/** The bytes of a file that may be compressed with gzip; at most limit of them. */
export async function unpacked(file: Uint8Array, limit: number): Promise<Uint8Array> {
  if (file[0] !== 0x1f || file[1] !== 0x8b) {
    refuseIf(file.length > limit, 'evidence_malformed', `the export has more than ${limit} bytes`);
    return file;
  }
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    const stream = new Blob([file as Uint8Array<ArrayBuffer>]).stream().pipeThrough(new DecompressionStream('gzip'));
    for (const reader = stream.getReader();;) {
      const { done, value } = await reader.read();
      if (done) break;
      if ((size += value.length) > limit) {
        return refuse('evidence_malformed', `the export has more than ${limit} bytes`);
      }
      chunks.push(value);
    }
  } catch (error) {
    if (error instanceof Refusal) throw error;
    return refuse('evidence_malformed', 'the compressed export is damaged, or breaks off');
  }
  const all = new Uint8Array(size);
  chunks.reduce((at, chunk) => (all.set(chunk, at), at + chunk.length), 0);
  return all;
}

/** The lines of an export, one after the other. */
class Lines {
  private number = 0;
  private at = 0;
  name = '';
  value: Json = null;
  size = 0;

  readonly room: { items: number };

  constructor(private readonly all: string) {
    this.room = { items: 1000 + Math.floor(all.length / BYTES_PER_ITEM) };
  }

  malformed(why: string): never {
    return refuse('evidence_malformed', `line ${this.number} of the export: ${why}`);
  }

  next(): void {
    this.number++;
    const end = this.all.indexOf('\n', this.at);
    if (end < 0) this.malformed('the export breaks off before its end');
    const line = this.all.slice(this.at, end);
    this.at = end + 1;
    this.size = sizeOf(line);
    if (this.size >= MAX_LINE) this.malformed(`the line has more than ${MAX_LINE} bytes`);
    const members = this.as(() => strictJSON(line, { whole: true, room: this.room })) as Members;
    const isObject = members && typeof members === 'object' && !Array.isArray(members);
    const [name, ...more] = isObject ? Object.keys(members) : [];
    if (name === undefined || more.length > 0) this.malformed('each line has one member');
    [this.name, this.value] = [name!, members[name!]!];
  }

  expect(name: string): void {
    if (this.name !== name) this.malformed(`a ${this.name} stands where a ${name} is expected`);
  }

  /** Names the line in a refusal. */
  as<T>(read: () => T): T {
    try {
      return read();
    } catch (error) {
      if (error instanceof Refusal) this.malformed(error.message);
      throw error;
    }
  }

  text(): string {
    return typeof this.value === 'string' ? this.value : this.value === null ? ''
      : this.malformed(`${this.name} must be a text`);
  }

  atEnd(): boolean {
    return this.at === this.all.length;
  }
}

/** Reads a whole export (evidence_malformed). It verifies nothing. */
export async function readExport(bytes: Uint8Array): Promise<Export> {
  const text = textOf(bytes) ?? refuse('evidence_malformed', 'the export is not UTF-8');
  const lines = new Lines(text);
  lines.next();
  lines.expect('actionproof-evidence');
  const header = lines.as(() => normal({ version: 'i' }, lines.value)) as Members;
  if (header.version !== 1) lines.malformed(`it has version ${header.version}, and version 1 is read here`);
  const trusts = await readTrusts(lines);
  const records: Exported[] = [];
  while (lines.name !== 'end') {
    if (records.length === MAX_RECORDS) lines.malformed(`there are more than ${MAX_RECORDS} records`);
    records.push(readRecord(lines));
  }
  const end = lines.as(() => normal({ records: 'i' }, lines.value)) as Members;
  if (end.records !== records.length) lines.malformed('the end counts other records');
  if (!lines.atEnd()) lines.malformed('something comes after the end');
  return { trusts, records };
}

async function readTrusts(lines: Lines): Promise<Trusted[]> {
  const trusts: Trusted[] = [];
  const refused = (error: unknown): never => {
    if (error instanceof Refusal) lines.malformed(error.message);
    throw error;
  };
  let shared = 0;
  for (lines.next(); !['receipt', 'record', 'end'].includes(lines.name); lines.next()) {
    if ((shared += lines.size) > MAX_SHARED) lines.malformed('too much comes before the records');
    if (lines.name === 'roots') {
      const files = lines.value as Members | null;
      if (typeof files !== 'object' || Array.isArray(files) || trusts.length === MAX_TRUSTS ||
        Object.keys(files ?? {}).some((name) => !['registry', 'auditor'].includes(name))) {
        lines.malformed('the roots are not two keys, or there are too many');
      }
      const [registry, auditor] = ['registry', 'auditor'].map((name) => JSON.stringify(files?.[name] ?? null));
      trusts.push(await trusted(registry!, auditor!).catch(refused));
      continue;
    }
    const text = lines.text();
    const t = trusts.at(-1) ?? lines.malformed(`a ${lines.name} comes before the first roots`);
    switch (lines.name) {
      case 'certificate': t.certificates.push(text); break;
      case 'earlierCertificate': t.earlier.push(text); break;
      case 'earlierRevocations': t.earlierRevocations.push(text); break;
      case 'revocations':
        if (t.revocations !== '') lines.malformed('the roots have two revocation lists');
        t.revocations = text;
        break;
      case 'manifest': {
        const strict = await parseManifest(text).catch(refused);
        t.manifests.set(strict.manifestHash, strict);
        break;
      }
      default: lines.malformed(`${lines.name} does not belong in an export`);
    }
  }
  if (trusts.length === 0) lines.malformed('the export has no roots');
  return trusts;
}

function readRecord(lines: Lines): Exported {
  lines.expect('record');
  const record = lines.as(() => recordOf(lines.value));
  const chosen = [record.queryNames, ...(record.graphql ?? []).map((of: Claims) => of.fields)].flat();
  lines.room.items += 0.75 * chosen.length;
  const proofs: Proofs = { intent: '', outcome: '' };
  lines.next();
  for (const name of ['intent', 'outcome'] as const) {
    if (lines.name !== `${name}Proof`) continue;
    const text = lines.text();
    lines.as(() => parseProof(text));
    proofs[name] = text;
    lines.next();
  }
  const receipts: string[] = [];
  for (; lines.name === 'receipt'; lines.next()) receipts.push(lines.text());
  return { record, proofs, receipts };
}

// s is a text, i a whole number, b a boolean, T a time, y bytes in base64, l a list of texts. A ? marks what the
// mediator leaves out if it is empty.
type Form = 's' | 'i' | 'b' | 'T' | 'y' | 'l' | { [name: string]: Form } | [{ [name: string]: Form }];

const figure: Form = { n: 'i', state: 's' };
const of = (form: Form, names: string): { [name: string]: Form } =>
  Object.fromEntries(names.split(' ').map((name) => [name, form]));
const recordForm: Form = {
  ...of('s', 'id flow state session? event? rule? subject? action? resource? method? host? path? scheme? via? ' +
    'carries? unfit? message? result? contentHash? bindingHash? capabilityId? manifest? code? step? reason?'),
  'queryNames?': 'l', 'mcp?': of('s', 'method? tool?'), 'graphql?': [{ type: 's', fields: 'l' }], 'learning?': 'b',
  'tools?': [{ name: 's', 'hash?': 's', 'unnamed?': 'b' }],
  'model?': {
    ...of('s', 'api model? answeredBy? outcome unread? error?'), 'streamed?': 'b',
    ...of('l', 'hosted? unknownMembers?'),
    ...of(figure, 'inputTokens? outputTokens? cachedTokens? reasoningTokens? toolCalls? hostedCalls? sentMicros? ' +
      'headMicros? firstMicros? endMicros?'),
  },
  'interactions?': { number: 'i', 'head?': 's', 'open?': 'l' }, started: 'T', 'finished?': 'T',
  ...of('i', 'status? bytesOut? bytesIn?'),
  'answer?': { base: 's', signature: 'y', keyId: 's', publicKey: 'y' }, 'artifacts?': [of('s', 'name token')],
  'checks?': [{ name: 's', ok: 'b', 'code?': 's', 'detail?': 's' }], 'steps?': [{ name: 's', micros: 'i' }],
  'keys?': 'l',
};
const ZERO_TIME = '0001-01-01T00:00:00Z';
const ZERO: Record<string, Json> = { s: '', i: 0, b: false, T: ZERO_TIME, y: null, l: null };

/** A value as the mediator would write it: without empty members that it leaves out, and with all others. */
function normal(form: Form, value: Json | undefined): Json {
  const wrong = (what: string): never => refuse('evidence_malformed', `it has a member that is not ${what}`);
  const missing = value === undefined || value === null;
  if (Array.isArray(form)) {
    return missing ? null : Array.isArray(value) ? value.map((item) => normal(form[0], item)) : wrong('a list');
  }
  if (typeof form === 'object') {
    const given = missing ? {} : value;
    if (typeof given !== 'object' || given === null || Array.isArray(given)) return wrong('an object');
    const out: Members = {};
    for (const name of Object.keys(given)) {
      if (!Object.hasOwn(form, name) && !Object.hasOwn(form, `${name}?`)) wrong(`known: ${name}`);
    }
    for (const [named, inner] of Object.entries(form)) {
      const optional = named.endsWith('?');
      const name = optional ? named.slice(0, -1) : named;
      const member = Object.hasOwn(given, name) ? given[name] : undefined;
      if (optional && (member === undefined || member === null)) continue;
      const read = normal(inner, member);
      if (!optional || !isEmpty(inner, read)) out[name] = read;
    }
    return out;
  }
  if (missing) return ZERO[form]!;
  switch (form) {
    case 's': return typeof value === 'string' ? value : wrong('a text');
    case 'b': return typeof value === 'boolean' ? value : wrong('true or false');
    case 'i': return Number.isSafeInteger(value) ? value : wrong('a whole number');
    case 'y': return typeof value === 'string' && fromBase64(value) ? value : wrong('base64');
    case 'l': return Array.isArray(value) ? value.map((item) => normal('s', item)) : wrong('a list of texts');
    case 'T': return typeof value === 'string' ? timeOf(value) ?? wrong('a time') : wrong('a time');
  }
}

const isEmpty = (form: Form, value: Json): boolean => (typeof form === 'object' && !Array.isArray(form) ? false
  : value === null || value === '' || value === 0 || value === false || form === 'T' && value === ZERO_TIME ||
    (Array.isArray(value) && value.length === 0));

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

const NAMES = ['challenge', 'originProof', 'triggerReceipt', 'reputation', 'policyDecision', 'grant',
  'runtimeAttestation', 'sessionReceipt', 'deploymentCertificate', 'capability', 'requestProof', 'agentStatement'];

function recordOf(value: Json): PostRecord {
  const r = normal(recordForm, value) as unknown as PostRecord;
  refuseIf(!r.artifacts?.length, 'evidence_malformed', 'the record has no artifacts');
  const names = r.artifacts.map(({ name }) => name);
  refuseIf(names.some((name, i) => !NAMES.includes(name) || names.indexOf(name) !== i), 'evidence_malformed',
    'an artifact has a name that is none, or one that occurs twice');
  return r;
}

/** A record as the log's outcome names it. */
export function withoutArtifacts({ artifacts: _, keys: __, ...rest }: PostRecord): Members {
  return rest as Members;
}
