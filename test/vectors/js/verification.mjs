// The claims of a verification's result, and the values that follow from its trace. Types as in claims.mjs.
import { createHash, createPublicKey, verify } from 'node:crypto';
import { bytesIn, hash, isHash, refuseIf } from './refusal.mjs';

export const verification = {
  session: 's', nonce: 's', subject: 's', subjectBasis: 's', publicKey: 's', did: 's', didKey: 's', task: 's', mode: 's',
  checks: [{ check: 's', basis: 's', points: 'i', most: 'i' }], score: 'i', maxScore: 'i', observedAll: 'b', turns: 'i', firstTurnMs: 'i', lastTurnMs: 'i',
  modelCalls: { basis: 's', 'beforeTurn?': 'm' }, reasoning: { basis: 's', by: 's', coverage: 'i', band: 's' }, privileged: 'b', gates: [{ gate: 's', status: 's', 'reason?': 's', score: 'i' }], degraded: 'b',
  merkleRoot: 's', attestation: 's', rfc6962Root: 's', probabilistic: 'b', nonHumanIdentityProven: 'b',
};

const CHECKS = [
  ['minimum_turns', 25], ['minimum_duration', 10], ['required_tools', 15], ['hash_chain', 20], ['merkle_root', 10], ['attestation', 10], ['follow_up', 15],
];
const GATES = ['orchestrate', 'govern', 'enforce'];
const STATES = ['passed', 'unavailable', 'not_configured'];

const named = (text, bound) => text !== '' && bytesIn(text) <= bound;

function bandOf({ coverage }, privileged) {
  if (coverage < (privileged ? 125 : 250)) return 'low';
  return coverage < 400 ? 'marginal' : 'full';
}

function soundChecks({ checks, mode, score, maxScore, observedAll }) {
  if (checks.length !== CHECKS.length || score !== 105 || maxScore !== 105) return false;
  const whole = checks.every((c, i) => c.check === CHECKS[i][0] && c.most === CHECKS[i][1] && c.points === c.most);
  const known = checks.every(({ basis }) => basis === 'observed' || (basis === 'declared' && mode === 'seed'));
  return whole && known && observedAll === checks.every(({ basis }) => basis === 'observed');
}

function soundGates({ gates, degraded }) {
  if (gates.length !== GATES.length || degraded !== gates.some(({ status }) => status === 'unavailable')) return false;
  return gates.every(({ gate, status, reason = '' }, i) => gate === GATES[i] && STATES.includes(status) && bytesIn(reason) <= 64);
}

function soundModelCalls({ modelCalls: { basis, beforeTurn }, subjectBasis, turns }) {
  if (basis === 'not_measured') return beforeTurn === undefined;
  return basis === 'observed' && subjectBasis === 'observed' && beforeTurn?.length === turns && beforeTurn.every((n) => Number.isSafeInteger(n) && n >= 0);
}

/** Whether well-typed claims make a result. */
export function soundVerification(c) {
  const { reasoning } = c;
  if (!c.probabilistic || c.nonHumanIdentityProven || ![c.merkleRoot, c.attestation, c.rfc6962Root, c.nonce].every(isHash)) return false;
  if (!named(c.session, 64) || !named(c.subject, 300) || !named(c.task, 64) || bytesIn(c.publicKey) !== 43) return false;
  if (c.did === '' || c.didKey === '' || bytesIn(c.did + c.didKey) > 256) return false;
  if (!['observed', 'declared'].includes(c.subjectBasis) || !['observed', 'seed'].includes(c.mode)) return false;
  if (c.turns < 3 || c.turns > 16 || c.firstTurnMs <= 0 || c.lastTurnMs < c.firstTurnMs) return false;
  if (reasoning.basis !== 'declared' || !['xray', 'keywords'].includes(reasoning.by) || reasoning.coverage < 0 || reasoning.coverage > 1000) return false;
  return reasoning.band === bandOf(reasoning, c.privileged) && soundChecks(c) && soundModelCalls(c) && soundGates(c);
}

const ALPHABET = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';

function base58(bytes) {
  let text = '';
  for (let n = BigInt(`0x${bytes.toString('hex')}`); n > 0n; n /= 58n) text = ALPHABET[Number(n % 58n)] + text;
  return text;
}

/** Holds a key against its two names, and against the proof that somebody holds it. */
export function checkPossession({ pem, did, didKey, nonce, payload, signature }) {
  const key = createPublicKey(pem);
  const x = Buffer.from(key.export({ format: 'jwk' }).x, 'base64url');
  refuseIf(did !== `did:groover:${hash(key.export({ type: 'spki', format: 'pem' })).slice(0, 16)}`, 'another did');
  refuseIf(didKey !== `did:key:z${base58(Buffer.concat([Buffer.from([0xed, 0x01]), x]))}`, 'another did:key');
  refuseIf(!verify(null, Buffer.from(`${nonce}|${payload}`), key, Buffer.from(signature, 'hex')), 'verification_possession');
}

const sha256 = (...parts) => parts.reduce((h, part) => h.update(part), createHash('sha256')).digest();

/** The tree head of RFC 6962, section 2.1. */
export function treeHead(leaves) {
  if (leaves.length === 0) return sha256();
  if (leaves.length === 1) return sha256(Buffer.from([0]), leaves[0]);
  let cut = 1;
  while (cut * 2 < leaves.length) cut *= 2;
  return sha256(Buffer.from([1]), treeHead(leaves.slice(0, cut)), treeHead(leaves.slice(cut)));
}

/** Holds a trace against its hashes, both roots and the attestation. */
export function checkTrace({ sessionId, turns, merkleRoot, attestation }, rfc6962Root) {
  let prevHash = 'groover-challenge-seed-v1';
  const texts = turns.map(({ toolCall, input, output, reasoning, timestamp, hash: own }) => {
    const text = JSON.stringify({ prevHash, toolCall, input, output, reasoning, timestamp });
    refuseIf(hash(text) !== own, 'hash_chain_broken');
    prevHash = own;
    return text;
  });
  let level = turns.map((turn) => turn.hash);
  while (level.length > 1) {
    level = Array.from({ length: Math.ceil(level.length / 2) }, (_, i) => hash(level[2 * i] + (level[2 * i + 1] ?? level[2 * i])));
  }
  refuseIf(level[0] !== merkleRoot, 'merkle_root_mismatch');
  refuseIf(hash(merkleRoot + sessionId) !== attestation, 'attestation_mismatch');
  refuseIf(treeHead(texts).toString('hex') !== rfc6962Root, 'another RFC 6962 root');
}
