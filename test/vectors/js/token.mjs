// One token: its form, its key, its claims, and what is expected of it.
import { createHmac, createPublicKey, timingSafeEqual, verify } from 'node:crypto';
import { decode, kinds } from './claims.mjs';
import { Refusal, bytesIn, hash, refuse, refuseIf } from './refusal.mjs';

const LIST = 'revocation-list+jwt';
const ROOTS = ['signer_certificate', 'deployment_certificate', 'dispute_arbiter'];
const sizeOf = (typ) => kinds[typ].size ?? 16384;

/** Takes a compact JWS apart. */
export function parse(token, alg, typ) {
  refuseIf(token === '', 'artifact_missing');
  refuseIf(bytesIn(token) > sizeOf(typ), 'artifact_malformed');
  const parts = token.split('.');
  refuseIf(parts.length !== 3, 'artifact_malformed');
  const [head, payload, signature] = parts.map((part) => fromBase64url(part) ?? refuse('artifact_malformed'));
  let header;
  try {
    header = JSON.parse(head);
  } catch {
    refuse('artifact_malformed');
  }
  const kid = header?.kid;
  refuseIf(
    typeof kid !== 'string' || /\p{Surrogate}/u.test(kid) || !head.equals(Buffer.from(JSON.stringify({ alg, kid, typ }))) || kid === '' ||
    bytesIn(kid) > 256, 'artifact_malformed');
  return { kid, payload, signature, input: Buffer.from(`${parts[0]}.${parts[1]}`) };
}

function fromBase64url(text) {
  const bytes = Buffer.from(text, 'base64url');
  return bytes.toString('base64url') === text ? bytes : undefined;
}

function signedBy(x, { input, signature }) {
  return signature.length === 64 && verify(null, input, createPublicKey({ format: 'jwk', key: { kty: 'OKP', crv: 'Ed25519', x } }), signature);
}

function signedBySecond(pub, { input, signature }) {
  let key;
  try {
    key = createPublicKey({ format: 'jwk', key: { kty: 'AKP', alg: 'ML-DSA-65', pub } });
  } catch {
    throw new Refusal('unsupported'); // a Node without ML-DSA
  }
  return verify(null, input, key, signature);
}

const macOf = (secret, text) => createHmac('sha256', secret).update(text).digest();
const secretId = (secret) => `mac:${macOf(secret, 'kid').subarray(0, 9).toString('base64url')}`;

/** The name of a key and its version, which is 0 where the kid has none. */
function cut(kid) {
  const [, name, version] = /^(.+):v([0-9]+)$/s.exec(kid) ?? [];
  return Number(version) < 2 ** 31 ? { name, version: Number(version) } : { name: kid, version: 0 };
}

/** Whether a list has a name, or a /* in the place of its last segment. */
export const nameAmong = (list, name) => list.includes(name) || /.\/[^/]+$/s.test(name) && list.includes(name.replace(/[^/]+$/, '*'));

/** Whether a key id is among those of a list, whole or by its name. */
export const keyAmong = (list, kid) => list.includes(kid) || nameAmong(list, cut(kid).name);

function authentic(secret, { input, signature }) {
  const want = macOf(secret, input);
  return signature.length === want.length && timingSafeEqual(signature, want);
}

/** Holds registered claims and a key against what is expected. */
function admit(expected, kid, claims, key, { at, skew }) {
  const { issuers = [], audiences = [], keyIds = [], maxAge = 0, custody = [], requireNonExportable = false } = expected;
  refuseIf(
    !issuers.length || !audiences.length || !keyIds.length || maxAge <= 0 || !issuers.includes(claims.iss) ||
    !audiences.includes(claims.aud) || !keyAmong(keyIds, kid), 'not_allowed');
  refuseIf(at + skew < claims.iat, 'clock_skew');
  refuseIf(at - skew >= claims.exp || at - claims.iat > maxAge + skew, 'expired');
  refuseIf(
    requireNonExportable && key.keyExportable || custody.length > 0 && !custody.includes(key.keyCustody), 'key_custody');
}

/** Opens a token of a gate to itself. */
export function openOwn(typ, token, secret, expected, clock) {
  const jws = parse(token, 'HS256', typ);
  refuseIf(!authentic(secret, jws), 'signature_invalid');
  const claims = decode(kinds[typ], jws.payload);
  admit({ ...expected, keyIds: [secretId(secret)], custody: [], requireNonExportable: false }, jws.kid, claims, {}, clock);
  return claims;
}

/** Whom a verifier believes. */
export class Trust {
  constructor({ roots, certificates, revocations, signers }) {
    this.policy = signers;
    this.roots = new Map();
    this.signers = new Map();
    for (const root of roots) {
      refuseIf(
        !ROOTS.includes(root.purpose) || this.roots.has(root.kid) || this.pins(root.x) ||
        (!soundKey(fromBase64url(root.x) ?? Buffer.alloc(0))) ||
        (root.pub !== undefined && !soundSecondKey(fromBase64url(root.pub) ?? Buffer.alloc(0))), 'trust_malformed');
      this.roots.set(root.kid, root);
    }
    refuseIf(certificates.length > 1024, 'trust_malformed');
    for (const certificate of certificates) this.add(certificate);
    if (revocations) this.revocations = this.rooted(LIST, revocations, this.policy.requirePostQuantum);
  }

  add(token) {
    const typ = 'signer-custody-certificate+jwt';
    const jws = parseRooted(token, typ);
    const root = this.roots.get(jws.kid);
    refuseIf(root?.purpose !== 'signer_certificate', 'key_unknown');
    verifyRooted(root, jws, typ, this.policy.requirePostQuantum);
    const c = decode(kinds[typ], jws.payload);
    refuseIf(ROOTS.includes(c.purposes[0]), 'key_unknown');
    const key = fromBase64url(c.subjectPublicKey) ?? refuse('key_unknown');
    refuseIf(!soundKey(key), 'trust_malformed');
    refuseIf(
      hash(key) !== c.subjectPublicKeyHash || this.roots.has(c.subjectKeyId) || this.pins(c.subjectPublicKey), 'key_unknown');
    const before = this.signers.get(c.subjectKeyId);
    refuseIf(before && before.claims.subjectPublicKey !== c.subjectPublicKey, 'key_unknown');
    if (!before || before.claims.iat <= c.iat) this.signers.set(c.subjectKeyId, { claims: c, kid: jws.kid });
  }

  /** Whether a public key is a root's. */
  pins(x) {
    return [...this.roots.values()].some((root) => root.x === x);
  }

  /** Refuses a revoked key or artifact, and everything without a valid list that the policy demands. */
  notRevoked(kid, ids, clock) {
    const { maxRevocationAge = 0 } = this.policy;
    if (!this.revocations) return refuseIf(maxRevocationAge > 0, 'revocations_stale');
    const { claims, kid: by } = this.revocations;
    try {
      admit({ ...this.policy, maxAge: maxRevocationAge || this.policy.maxAge, custody: [], requireNonExportable: false }, by, claims, {}, clock);
    } catch (error) {
      throw error instanceof Refusal ? new Refusal('revocations_stale') : error;
    }
    const revoked = (kind, names) => claims.revoked.some((entry) => entry.kind === kind && names.includes(entry.id));
    refuseIf(revoked('key', [kid, cut(kid).name]) || revoked('artifact', ids), 'revoked');
  }

  /** The custody certificate of a key, and the key that signed it. */
  certificateOf(kid, clock) {
    this.notRevoked(kid, [], clock);
    refuseIf(this.roots.has(kid), 'key_purpose');
    const found = this.signers.get(kid);
    if (!found) {
      const { name, version } = cut(kid);
      const later = [...this.signers.keys()].map(cut).some((other) => other.name === name && other.version > version);
      refuse(version > 0 && later ? 'key_retired' : 'key_unknown');
    }
    this.notRevoked(found.kid, [found.claims.jti], clock);
    return found;
  }

  /** Whether a secret is a public key. */
  publishes(secret) {
    const keys = [...this.signers.values()].map((s) => s.claims.subjectPublicKey);
    for (const root of this.roots.values()) keys.push(root.x, root.pub ?? '');
    return keys.some((text) => text !== '' && (secret.equals(Buffer.from(text)) || secret.equals(Buffer.from(text, 'base64url'))));
  }

  /** Opens a token by public keys, or by shared secrets where the policy holds some. */
  open(typ, token, expected, clock) {
    if (expected.secrets?.length) return this.openShared(typ, token, expected, clock);
    return kinds[typ].root ? this.openRooted(typ, token, expected, clock) : this.openCertified(typ, token, expected, clock);
  }

  openCertified(typ, token, expected, clock) {
    const jws = parse(token, 'EdDSA', typ);
    refuseIf(expected.requirePostQuantum, 'roots_not_pinned');
    const { claims: certificate, kid } = this.certificateOf(jws.kid, clock);
    refuseIf(certificate.purposes[0] !== kinds[typ].purpose, 'key_purpose');
    const shared = [...this.signers.values()].some(({ claims: other }) => other.subjectPublicKey === certificate.subjectPublicKey && other.purposes[0] !== certificate.purposes[0]);
    refuseIf(shared, 'key_purpose');
    admit(this.policy, kid, certificate, certificate, clock);
    refuseIf(
      this.policy.denyAgentAccessible && certificate.accessibleToAgent ||
      this.policy.denyUserAccessible && certificate.accessibleToUsers, 'key_custody');
    refuseIf(!signedBy(certificate.subjectPublicKey, jws), 'signature_invalid');
    const claims = decode(kinds[typ], jws.payload);
    this.notRevoked(jws.kid, [claims.jti], clock);
    refuseIf(claims.iss !== certificate.subjectIssuer, 'key_purpose');
    if ('keyCustody' in claims) {
      refuseIf(claims.keyCustody !== certificate.keyCustody || claims.keyExportable !== certificate.keyExportable, 'key_custody');
    }
    admit(expected, jws.kid, claims, certificate, clock);
    return claims;
  }

  openRooted(typ, token, expected, clock) {
    const { claims, kid } = this.rooted(typ, token, expected.requirePostQuantum);
    this.notRevoked(kid, [claims.jti], clock);
    admit({ ...expected, custody: [], requireNonExportable: false }, kid, claims, {}, clock);
    return claims;
  }

  /** The claims that a root signed, and which. */
  rooted(typ, token, requirePostQuantum) {
    const jws = parseRooted(token, typ);
    const root = this.roots.get(jws.kid);
    if (!root) refuse(this.signers.has(jws.kid) ? 'key_purpose' : 'key_unknown');
    refuseIf(root.purpose !== kinds[typ].purpose, 'key_purpose');
    verifyRooted(root, jws, typ, requirePostQuantum);
    return { claims: decode(kinds[typ], jws.payload), kid: jws.kid };
  }

  openShared(typ, token, expected, clock) {
    refuseIf(!kinds[typ].shared, 'artifact_malformed');
    const jws = parse(token, 'HS256', typ);
    const secret = expected.secrets.map((text) => Buffer.from(text, 'base64url')).find((s) => secretId(s) === jws.kid) ?? refuse('key_unknown');
    refuseIf(this.publishes(secret), 'config_malformed');
    refuseIf(!authentic(secret, jws), 'signature_invalid');
    const claims = decode(kinds[typ], jws.payload);
    refuseIf(claims.keyCustody !== 'shared_secret' || !claims.keyExportable, 'key_custody');
    this.notRevoked(jws.kid, [claims.jti], clock);
    admit(expected, jws.kid, claims, claims, clock);
    return claims;
  }
}

function parseRooted(token, typ) {
  refuseIf(bytesIn(token) > sizeOf(typ), 'artifact_malformed');
  const [first, ...rest] = token.split('~');
  const jws = parse(first, 'EdDSA', typ);
  const second = rest.join('~');
  refuseIf(rest.length > 0 && second === '', 'artifact_malformed');
  return { ...jws, second };
}

function verifyRooted(root, jws, typ, required) {
  refuseIf(!signedBy(root.x, jws), 'signature_invalid');
  refuseIf(required && !root.pub, 'roots_not_pinned');
  refuseIf(root.pub && !jws.second, 'signature_invalid');
  if (!jws.second) return;
  const second = parse(jws.second, 'ML-DSA-65', typ);
  refuseIf(second.kid !== jws.kid, 'signature_invalid');
  refuseIf(!second.payload.equals(jws.payload), 'artifact_malformed');
  refuseIf(root.pub && !signedBySecond(root.pub, second), 'signature_invalid');
}

const P = 2n ** 255n - 19n;
const littleEndian = (bytes) => BigInt(`0x${Buffer.from(bytes).reverse().toString('hex')}`);
const smallOrder = [0n, 1n, P - 1n, ...['c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a', '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05']
  .map((hex) => littleEndian(Buffer.from(hex, 'hex')))];

/** Whether bytes are an Ed25519 public key that every implementation reads alike. */
function soundKey(bytes) {
  if (bytes.length !== 32) return false;
  const y = littleEndian(bytes) % 2n ** 255n;
  return y < P && !smallOrder.includes(y);
}

/** Whether bytes are an ML-DSA-65 public key: the seed of its matrix, and t1, which is not all zero. */
function soundSecondKey(bytes) {
  return bytes.length === 1952 && bytes.subarray(32).some((b) => b !== 0);
}
