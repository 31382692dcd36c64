// The golden vectors: docs/vectors.md.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import * as claims from '../dist/claims.js';
import { hash } from '../dist/bytes.js';
import { canonical, strictJSON } from '../dist/json.js';
import { Refusal } from '../dist/refusal.js';
import { Gate } from '../dist/index.js';
import { Trust } from '../dist/trust.js';

const read = (name) => JSON.parse(readFileSync(new URL(`../../../test/vectors/${name}`, import.meta.url), 'utf8'));
const bytes = (text) => new Uint8Array(Buffer.from(text, 'base64url'));
const kinds = new Map(Object.values(claims).filter((k) => k?.typ).map((k) => [k.typ, k]));
const store = { consume: async () => true };

async function verdict(judge) {
  try {
    await judge();
    return 'ok';
  } catch (error) {
    if (error instanceof Refusal) return error.code;
    throw error;
  }
}

test('canonical.json', async () => {
  for (const v of read('canonical.json').vectors) {
    assert.equal(await verdict(async () => {
      const form = canonical(strictJSON(bytes(v.input)));
      assert.equal(form, v.canonical, v.name);
      assert.equal(await hash(form), v.sha256, v.name);
    }), v.verdict, v.name);
  }
});

const rootOf = ({ kid, purpose, x, pub }) => ({ kid, purpose, x: bytes(x), pub: pub && bytes(pub) });
const seconds = (p = {}) => ({ issuers: [], audiences: [], keyIds: [], maxAge: 0, maxRevocationAge: 0, ...p });

test('artifacts.json', async () => {
  const { vectors, skew, at: usual, trust: common, expected } = read('artifacts.json');
  let judged = 0;
  for (const { name, typ, token, at = usual, trust = common, expected: want = expected[typ],
    verdict: code } of vectors) {
    const kind = kinds.get(typ);
    const ofGates = ['challenge', 'capability'].includes(kind?.purpose);
    if (!kind || ofGates || want.secrets?.length) continue;
    let unsupported = false;
    const got = await verdict(async () => {
      try {
        const t = await Trust.open(trust.roots.map(rootOf), trust.certificates, trust.revocations ?? '',
          seconds(trust.signers));
        await t.open(kind, token, seconds(want), { now: at, skew });
      } catch (error) {
        unsupported = !(error instanceof Refusal); // a WebCrypto without ML-DSA
        if (!unsupported) throw error;
      }
    });
    if (unsupported) assert.match(name, /second signature/);
    else assert.equal(got, code, name);
    judged++;
  }
  assert.ok(judged > 250, `${judged}`);
});

async function gateOf(file, v) {
  const jwk = (purpose) => {
    const { kid, x } = file.trust.roots.find((root) => root.purpose === purpose);
    return JSON.stringify({ kty: 'OKP', crv: 'Ed25519', kid, x });
  };
  return Gate.open({
    registry: jwk('signer_certificate'), auditor: jwk('deployment_certificate'), secret: bytes(file.gate.secret),
    manifest: JSON.stringify(v.manifest ?? file.manifest),
    bundle: JSON.stringify({ certificates: file.trust.certificates, revocations: v.revoked ?? '',
      deploymentCertificate: '' }),
  }, { name: file.gate.name, store, now: () => (v.at ?? file.at) * 1000, maxStale: Infinity });
}

test('chains.json', async () => {
  const file = read('chains.json');
  for (const v of file.vectors) {
    const whole = { envelope: { ...file.envelope, ...v.envelope }, binding: v.binding ?? file.binding };
    const got = await (await gateOf(file, v)).admit(v.request ?? JSON.stringify(whole));
    assert.equal(got.code, v.verdict, `${v.name}: ${got.detail}`);
  }
});

test('posts.json', async () => {
  const file = read('posts.json');
  for (const v of file.vectors) {
    const { capability, requestProof, accessTokenHash, binding } = { ...file, ...v };
    const gate = await gateOf(file, v);
    assert.equal(await verdict(() => gate.authorize(capability, requestProof, accessTokenHash, binding)), v.verdict,
      v.name);
  }
});
