// Whom a gate believes: the pinned roots, and the keys that they certify.
import { type Bytes, equal, fromBase64url, hash, toBase64url, utf8, verifies } from './bytes.js';
import { type Claims, type Kind, type Parsed, decode, deploymentCertificate, parse, parseRooted, revocationList,
  signerCertificate } from './claims.js';
import type { Json } from './json.js';
import { Refusal, refuse, refuseIf } from './refusal.js';

/** What is demanded of an artifact. Issuers, audiences, key ids and age have no default: empty, they refuse all. */
export interface Expected {
  issuers: string[];
  audiences: string[];
  keyIds: string[];
  /** Seconds. */
  maxAge: number;
  custody?: string[] | undefined;
  requireNonExportable?: boolean | undefined;
  requirePostQuantum?: boolean | undefined;
}

export interface SignerPolicy extends Expected {
  denyAgentAccessible: boolean;
  denyUserAccessible: boolean;
  /** Seconds; 0 needs no revocation list. */
  maxRevocationAge: number;
}

/** A time in Unix seconds, with the tolerated difference of clocks. */
export interface Clock { now: number; skew: number }

export interface Root { kid: string; purpose: string; x: Bytes; pub?: Bytes | undefined }

/** A key with its custody certificate, and whether that key is certified for another purpose, too. */
export interface Certified { cert: Claims; key: CryptoKey; by: string; shared: boolean }

/** A revocation list, with what it and earlier lists revoke. */
interface Revocations { claims: Claims; kid: string; keys: Set<string>; artifacts: Set<string> }

const ROOTS = ['signer_certificate', 'deployment_certificate', 'dispute_arbiter'];
const MAX_CERTIFICATES = 1024;

/** The name of a key and its version, which is 0 without one. */
export function cut(kid: string): { name: string; version: number } {
  const [, name = kid, version = ''] = /^(.+):v([0-9]+)$/s.exec(kid) ?? [];
  return version !== '' && Number(version) < 2 ** 31 ? { name, version: Number(version) } : { name: kid, version: 0 };
}
export const keyName = (kid: string): string => cut(kid).name;

/** Whether a list has a name, or an entry with * in place of its last segment. */
export const nameAmong = (list: string[], name: string): boolean =>
  list.includes(name) || (/.\/[^/]+$/s.test(name) && list.includes(name.replace(/[^/]+$/, '*')));
/** Whether a list has a key id, or the key's name. */
export const keyAmong = (list: string[], kid: string): boolean => list.includes(kid) || nameAmong(list,
  cut(kid).name);

/** Compares registered claims and a key's custody with what is expected. */
export function admits(want: Expected, what: string, kid: string, c: Claims, key: Claims, at: Clock): void {
  const { issuers, audiences, keyIds, maxAge, custody = [] } = want;
  refuseIf(!issuers.length || !audiences.length || !keyIds.length || maxAge <= 0 || !issuers.includes(c.iss) ||
    !audiences.includes(c.aud) || !keyAmong(keyIds, kid), 'not_allowed',
    `the policy does not allow the issuer, audience or key of the ${what}`);
  refuseIf(at.now + at.skew < c.iat, 'clock_skew', `the ${what} is issued in the future`);
  refuseIf(at.now - at.skew >= c.exp || at.now - c.iat > maxAge + at.skew, 'expired',
    `the ${what} has expired, or is older than the policy allows`);
  refuseIf((want.requireNonExportable && key.keyExportable) || (custody.length > 0 &&
    !custody.includes(key.keyCustody)),
    'key_custody', `the custody of the key behind the ${what} is not allowed`);
}

const importKey = (x: Bytes) => crypto.subtle.importKey('raw', x, 'Ed25519', true, ['verify']);

async function signedBy(key: CryptoKey, p: Parsed): Promise<boolean> {
  return p.signature.length === 64 && await verifies(key, p.signature, utf8(p.input));
}

/** An opened artifact. */
export interface Opened { claims: Claims; kid: string }

/** Marks a refusal of a key version that is newer than all certified ones: a retry may succeed. */
export class NewerKey extends Refusal {}

/** An immutable set of roots and certified keys. */
export class Trust {
  private readonly roots = new Map<string, Root & { key: CryptoKey }>();
  private readonly signers = new Map<string, Certified>();
  private readonly newest = new Map<string, number>();
  protected revocations: Revocations | undefined;
  /** For records: the moment may precede the revocation list. */
  protected past = false;

  protected constructor(readonly policy: SignerPolicy) {}

  /** Verifies the signature of each certificate and of the revocation list. One bad one refuses all. */
  static async open(roots: Root[], certificates: string[], revocations: string,
    policy: SignerPolicy): Promise<Trust> {
    const t = new Trust(policy);
    await t.pin(roots);
    refuseIf(certificates.length > MAX_CERTIFICATES, 'trust_malformed',
      'the trust bundle holds too many certificates');
    for (const certificate of certificates) await t.add(certificate);
    for (const s of t.signers.values()) {
      s.shared = [...t.signers.values()].some(({ cert }) =>
        cert.subjectPublicKey === s.cert.subjectPublicKey && cert.purposes[0] !== s.cert.purposes[0]);
    }
    if (revocations) t.revocations = await t.revoking([revocations]);
    return t;
  }

  protected async pin(roots: Root[]): Promise<void> {
    for (const root of roots) {
      refuseIf(!ROOTS.includes(root.purpose) || this.roots.has(root.kid) || this.pins(root.x), 'trust_malformed',
        `the root ${root.kid} is pinned twice, or for another purpose than a root's`);
      checkKey(root.x);
      if (root.pub) checkSecondKey(root.pub);
      this.roots.set(root.kid, { ...root, key: await importKey(root.x) });
    }
  }

  /** Verifies revocation lists. The first one's times count. */
  protected async revoking(lists: string[]): Promise<Revocations> {
    const all: Opened[] = [];
    for (const list of lists) all.push(await this.rooted(revocationList, list, this.policy.requirePostQuantum));
    const of = (kind: string) => new Set(all.flatMap(({ claims }) =>
      claims.revoked.filter((r: Claims) => r.kind === kind).map((r: Claims) => r.id as string)));
    return { ...all[0]!, keys: of('key'), artifacts: of('artifact') };
  }

  private pins(x: Bytes): boolean {
    return [...this.roots.values()].some((root) => equal(root.x, x));
  }

  private async add(token: string): Promise<void> {
    const s = await this.certificate(token);
    const kid: string = s.cert.subjectKeyId;
    const before = this.signers.get(kid);
    refuseIf(before && before.cert.subjectPublicKey !== s.cert.subjectPublicKey, 'key_unknown',
      `two custody certificates of key ${kid} are for different keys`);
    if (before && before.cert.iat > s.cert.iat) return;
    const { name, version } = cut(kid);
    this.newest.set(name, Math.max(version, this.newest.get(name) ?? 0));
    this.signers.set(kid, s);
  }

  /** Verifies a custody certificate, whatever its times. */
  protected async certificate(token: string): Promise<Certified> {
    const p = parseRooted(token, signerCertificate);
    const root = this.roots.get(p.kid);
    if (root?.purpose !== 'signer_certificate') {
      return refuse('key_unknown', 'a custody certificate is signed by a key that is not a pinned registry key');
    }
    await verifyRooted(root, p, signerCertificate.typ, this.policy.requirePostQuantum);
    const cert = await decode(signerCertificate, p.payload);
    const kid: string = cert.subjectKeyId;
    const bad = `the custody certificate of key ${kid} is for a root, or for another key than it says`;
    refuseIf(ROOTS.includes(cert.purposes[0]), 'key_unknown', bad);
    const x = fromBase64url(cert.subjectPublicKey) ?? refuse('key_unknown', bad);
    checkKey(x);
    refuseIf(await hash(x) !== cert.subjectPublicKeyHash || this.roots.has(kid) || this.pins(x), 'key_unknown', bad);
    return { cert, key: await importKey(x), by: p.kid, shared: false };
  }

  /** Refuses revoked keys and artifacts, and everything while the revocation list itself is not valid. */
  notRevoked(what: string, kid: string, ids: string[], at: Clock): void {
    if (!this.revocations) {
      return refuseIf(this.policy.maxRevocationAge > 0, 'revocations_stale',
        'the policy demands a revocation list, but the trust bundle has none');
    }
    const { claims, kid: by, artifacts } = this.revocations;
    const seen = this.past ? { ...at, now: Math.max(at.now, claims.iat) } : at; // a later list revokes, too
    try {
      admits({ ...this.policy, maxAge: this.policy.maxRevocationAge || this.policy.maxAge, custody: [],
        requireNonExportable: false }, 'revocation list', by, claims, {}, seen);
    } catch (error) {
      throw error instanceof Refusal ? new Refusal('revocations_stale', error.message) : error;
    }
    refuseIf(this.revokes(kid) || ids.some((id) => artifacts.has(id)), 'revoked',
      `the ${what}, or its key ${kid}, is revoked`);
  }

  protected revokes(kid: string): boolean {
    const { name } = cut(kid);
    return [kid, name, name.replace(/(?<=.)\/[^/]*$/s, '')].some((name) => this.revocations?.keys.has(name));
  }

  /** Refuses a successor that would undo a revocation or a retirement. */
  succeeds(old: Trust): void {
    const undone = (): never => refuse('revocations_rolled_back', 'the new trust bundle undoes a revocation');
    const [before, after] = [old.revocations?.claims, this.revocations?.claims];
    if (before && (!after || after.iat < before.iat)) undone();
    if (before && after && after.iat === before.iat && !before.revoked.every((b: Claims) =>
      after.revoked.some((a: Claims) => a.kind === b.kind && a.id === b.id))) undone();
    for (const kid of this.signers.keys()) {
      const { name, version } = cut(kid);
      if (!old.signers.has(kid) && version > 0 && version < (old.newest.get(name) ?? 0)) undone();
    }
  }

  /** A key's certificate, and the newest version of the key. */
  protected async find(kid: string, _at: Clock): Promise<{ found: Certified | undefined; newest: number }> {
    return { found: this.signers.get(kid), newest: this.newest.get(cut(kid).name) ?? 0 };
  }

  private async signer(kid: string, k: Kind, at: Clock): Promise<Certified> {
    this.notRevoked(k.typ, kid, [], at);
    const { found, newest } = await this.find(kid, at);
    refuseIf(this.roots.has(kid), 'key_purpose', `the ${k.typ} is signed by the root key ${kid}`);
    if (!found) {
      const { version } = cut(kid);
      const said = `the ${k.typ} is signed by key ${kid}, which has no custody certificate`;
      if (newest > 0 && version > newest) throw new NewerKey('key_unknown', said);
      return refuse(version > 0 && version < newest ? 'key_retired' : 'key_unknown', said);
    }
    const { cert, by, shared } = found;
    this.notRevoked(signerCertificate.typ, by, [cert.jti], at);
    refuseIf(cert.purposes[0] !== k.purpose || shared, 'key_purpose', `the key ${kid} is not for a ${k.typ} alone`);
    admits(this.policy, `custody certificate of key ${kid}`, by, cert, cert, at);
    refuseIf((this.policy.denyAgentAccessible && cert.accessibleToAgent) ||
      (this.policy.denyUserAccessible && cert.accessibleToUsers), 'key_custody',
      `the agent or users can reach the key ${kid}`);
    return found;
  }

  /** Verifies one artifact completely, but does not compare its claims with the post. */
  async open(k: Kind, token: string, want: Expected, at: Clock): Promise<Opened> {
    if (k.root) {
      const o = await this.rooted(k, token, want.requirePostQuantum, at);
      this.notRevoked(k.typ, o.kid, [o.claims.jti], at);
      admits({ ...want, custody: [], requireNonExportable: false }, k.typ, o.kid, o.claims, {}, at);
      return o;
    }
    const p = parse(token, 'EdDSA', k.typ, k.size);
    refuseIf(want.requirePostQuantum, 'roots_not_pinned', `a ${k.typ} has no post-quantum signature`);
    const { cert, key } = await this.signer(p.kid, k, at);
    refuseIf(!await signedBy(key, p), 'signature_invalid', `the signature of the ${k.typ} is wrong`);
    const claims = await decode(k, p.payload);
    this.notRevoked(k.typ, p.kid, [claims.jti], at);
    refuseIf(claims.iss !== cert.subjectIssuer, 'key_purpose', `the key ${p.kid} is certified for another issuer`);
    refuseIf('keyCustody' in claims &&
      (claims.keyCustody !== cert.keyCustody || claims.keyExportable !== cert.keyExportable), 'key_custody',
      `the ${k.typ} and the custody certificate disagree`);
    admits(want, k.typ, p.kid, claims, cert, at);
    return { claims, kid: p.kid };
  }

  /** Whether a root for a kind has signed a token, whatever its times and claims. */
  async signed(k: Kind, token: string): Promise<boolean> {
    try {
      const p = parseRooted(token, k);
      const root = this.roots.get(p.kid);
      if (root?.purpose !== k.purpose) return false;
      await verifyRooted(root, p, k.typ);
      return true;
    } catch (error) {
      if (error instanceof Refusal) return false;
      throw error;
    }
  }

  /** The last deployment certificate whose signatures were right: all chains of a deployment carry the same one. */
  private deployment: { token: string; required: boolean; opened: Opened } | undefined;

  /** The claims that a root signed, whatever the time. */
  private async rooted(k: Kind, token: string, required = false, at: Clock = { now: 0, skew: 0 }): Promise<Opened> {
    const { deployment: d } = this;
    if (k === deploymentCertificate && d?.token === token && d.required === required) return d.opened;
    const p = parseRooted(token, k);
    const root = this.roots.get(p.kid) ??
      refuse((await this.find(p.kid, at)).found ? 'key_purpose' : 'key_unknown',
        `the ${k.typ} is signed by a key that is no root`);
    refuseIf(root.purpose !== k.purpose, 'key_purpose', `the ${k.typ} is signed by a root for something else`);
    await verifyRooted(root, p, k.typ, required);
    const opened = { claims: await decode(k, p.payload), kid: p.kid };
    if (k === deploymentCertificate) this.deployment = { token, required, opened };
    return opened;
  }
}

async function verifyRooted(root: Root & { key: CryptoKey }, p: Parsed, typ: string, required =
  false): Promise<void> {
  const wrong = `a signature of the ${typ} by root ${root.kid} is missing or wrong`;
  refuseIf(!await signedBy(root.key, p), 'signature_invalid', wrong);
  refuseIf(required && !root.pub, 'roots_not_pinned', `no post-quantum key of root ${root.kid} is pinned`);
  refuseIf(root.pub && p.second === undefined, 'signature_invalid', wrong);
  if (p.second === undefined) return;
  const second = parse(p.second, 'ML-DSA-65', typ, p.second.length);
  refuseIf(second.kid !== p.kid, 'signature_invalid', wrong);
  refuseIf(!equal(second.payload, p.payload), 'artifact_malformed',
    `the two signatures of the ${typ} differ in claims`);
  if (root.pub) refuseIf(!await signedBySecond(root.pub, second), 'signature_invalid', wrong);
}

/** Verifies ML-DSA-65, which not every WebCrypto has. Without it the answer is an error, not a refusal. */
async function signedBySecond(pub: Bytes, p: Parsed): Promise<boolean> {
  const jwk = { kty: 'AKP', alg: 'ML-DSA-65', pub: toBase64url(pub) };
  const key = await crypto.subtle.importKey('jwk', jwk, { name: 'ML-DSA-65' }, false, ['verify']);
  return crypto.subtle.verify({ name: 'ML-DSA-65' }, key, p.signature as Bytes, utf8(p.input));
}

// Small-order points, and what is not reduced: implementations disagree about signatures of such keys.
const P = 2n ** 255n - 19n;
const smallOrder = [0n, 1n, P - 1n, 0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7n,
  0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n];

/** Refuses bytes that are not an Ed25519 public key that every implementation reads alike (trust_malformed). */
export function checkKey(x: Uint8Array): void {
  const y = [...x].reverse().reduce((sum, b) => (sum << 8n) | BigInt(b), 0n) & (2n ** 255n - 1n);
  refuseIf(x.length !== 32 || y >= P || smallOrder.includes(y), 'trust_malformed',
    'an Ed25519 public key is malformed, not reduced or of small order');
}

/** Refuses bytes that are not an ML-DSA-65 key, or a key for which anyone can sign: one without a t1. */
function checkSecondKey(pub: Uint8Array): void {
  refuseIf(pub.length !== 1952 || !pub.subarray(32).some((b) => b !== 0), 'trust_malformed',
    'an ML-DSA-65 public key is malformed');
}

/** Reads a root's JWK, or the JWK Set of its Ed25519 and ML-DSA-65 keys (trust_malformed). */
export function parseRoot(text: string, purpose: string): Root {
  const bad = (): never => refuse('trust_malformed',
    'a root must be a public Ed25519 JWK, or a set with its ML-DSA-65 key');
  const bytes = (v: unknown) => (typeof v === 'string' ? fromBase64url(v) : undefined) ?? bad();
  let given: Json;
  try {
    given = JSON.parse(text) as Json;
  } catch {
    return bad();
  }
  const of = (v: unknown) => (v ?? bad()) as Record<string, Json>;
  const keys = of(given).keys;
  const [first, second] = Array.isArray(keys) && keys.length > 0 ? keys.map(of) : [of(given)];
  if (Array.isArray(keys) && keys.length !== 0 && keys.length !== 2) bad();
  const { kty, crv, kid, x, d, alg, use } = first!;
  if ([alg, use].some((name) => typeof (name ?? '') !== 'string')) bad();
  if (kty !== 'OKP' || crv !== 'Ed25519' || typeof kid !== 'string' || kid === '' || kid.length > 256 || d) bad();
  const key = bytes(x);
  checkKey(key);
  if (!second) return { kid: kid as string, purpose, x: key };
  const pub = bytes(second.pub);
  if (second.kty !== 'AKP' || second.alg !== 'ML-DSA-65' || second.kid !== kid) bad();
  return { kid: kid as string, purpose, x: key, pub };
}
