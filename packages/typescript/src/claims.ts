// The artifacts: their claims, and what a payload must be.
import { fromBase64url, hash, isHash, sizeOf, textOf } from './bytes.js';
import { canonical, type Json, type Members } from './json.js';
import { Refusal, refuse, refuseIf } from './refusal.js';

// t is a text, h a hash, s any text, b a boolean, i a whole number, f any number, l a list of texts; an object stands
// for one with these members, [object] for a list of them. A ? marks what is left out if it is empty.
export type Type = 't' | 'h' | 's' | 'b' | 'i' | 'f' | 'l' | Shape | [Shape];
export interface Shape { [name: string]: Type }

/** Verified claims. Their members have the types of their kind. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Claims = Record<string, any>;

export interface Kind {
  typ: string;
  purpose: string;
  /** Signed by a pinned root. */
  root?: true;
  /** Seconds. */
  lifetime: number;
  /** Bytes of a token. */
  size: number;
  claims: Shape;
  check?: (c: Claims) => boolean | Promise<boolean>;
}

const registered: Shape = { aud: 's', exp: 'i', iat: 'i', iss: 's', jti: 's' };
export const key: Shape = { keyCustody: 't', keyExportable: 'b' };
const trigger: Shape = { id: 't', kind: 't', source: 't' };
const boundTo: Shape = { action: 's', contentHash: 's', 'nonce?': 's', resource: 's', subject: 's' };
const flags: Shape = {
  agentEnvironmentUserAccessible: 'b', humanOperatorPresent: 'b', humanPromptPresent: 'b', userShellAccess: 'b',
};
export const texts = <T extends Type>(type: T, ...names: string[]): Shape =>
  Object.fromEntries(names.map((n) => [n, type]));
export const within = (text: unknown, most: number) => typeof text === 'string' && text !== '' && isUpTo(text, most);
/** Whether a text has at most so many bytes: a UTF-16 code unit takes one to three. */
const isUpTo = (text: string, most: number) =>
  text.length * 3 <= most || (text.length <= most && sizeOf(text) <= most);

const SHORT = 600;
const LONG = 400 * 24 * 3600;

export function kind(typ: string, purpose: string, claims: Shape, more: Partial<Kind> = {}): Kind {
  return { typ: `${typ}+jwt`, purpose, lifetime: SHORT, size: 16384, claims: { ...registered, ...claims }, ...more };
}
const root = { root: true, lifetime: LONG } as const;

export const originProof = kind('trigger-origin-proof', 'trigger_origin_proof', {
  ...texts('h', 'bindingHash', 'evidenceHash', 'payloadHash'),
  ...texts('t', 'eventId', 'evidenceId', 'kind', 'source', 'verificationMethod'),
});
export const triggerReceipt = kind('trigger-receipt', 'trigger_receipt', {
  ...texts('h', 'bindingHash', 'originProofHash', 'payloadHash'), ...texts('t', 'eventId', 'kind', 'source'),
  humanInitiated: 'b',
});
export const policyDecision = kind('policy-decision', 'policy_decision', {
  ...key, ...texts('h', 'bindingHash', 'contentHash', 'environmentHash', 'originEvidenceHash', 'policyHash',
    'reputationHash?'), humanInitiated: 'b',
  ...texts('t', 'action', 'challengeId', 'decision', 'originEvidenceId', 'originVerificationMethod', 'resource',
    'rule',     'runtimeId', 'subject', 'triggerEventId', 'triggerKind', 'triggerSource'),
});
export const actionGrant = kind('action-grant', 'action_grant', {
  ...key, ...texts('h', 'environmentHash', 'policyHash'), subject: 't',
  ...texts('l', 'actions', 'bindingHashes', 'contentHashes', 'originEvidenceHashes', 'originEvidenceIds',
    'originVerificationMethods', 'policyDecisionHashes', 'policyDecisionIds', 'resources', 'runtimeIds',
    'triggerEventIds', 'triggerSources'),
}, { check: (c) => Object.values(c).every((v) => !Array.isArray(v) || v.length > 0) });
export const runtimeAttestation = kind('runtime-attestation', 'runtime_attestation', {
  ...key, ...texts('h', 'bindingHash', 'contentHash', 'environmentHash', 'policyHash', 'triggerReceiptHash'),
  challengeId: 't', humanInteractive: 'b', mode: 't', 'observed?': 'l', runtimeId: 't', trigger,
});
export const sessionReceipt = kind('agent-session-receipt', 'agent_session', {
  ...key, ...flags, ...texts('h', 'bindingHash', 'environmentHash', 'policyHash', 'transcriptHash'),
  ...texts('t', 'agentPod?', 'challengeId', 'enforcement?', 'eventId', 'inputKind', 'inputSource', 'runtimeId',
    'sessionId'), 'interactions?': { 'headHash?': 's', number: 'i', 'openCalls?': 'l' }, 'observed?': 'l',
}, {
  check: (c) => (c.interactions === undefined || soundHead(c.interactions)) && sizeOf(c.agentPod ?? '') <= 256 &&
    [undefined, 'isolated', 'guard', 'pod', 'none'].includes(c.enforcement),
});
export const requestProof = kind('request-proof', 'request_proof', {
  ...key, ...texts('h', 'accessTokenHash', 'bindingHash', 'contentHash'),
  ...texts('t', 'action', 'capabilityId', 'resource', 'subject'),
});
export const signerCertificate = kind('signer-custody-certificate', 'signer_certificate', {
  ...key, accessibleToAgent: 'b', accessibleToUsers: 'b', 'observed?': 'l', purposes: 'l', subjectPublicKeyHash: 'h',
  ...texts('t', 'subjectIssuer', 'subjectKeyId', 'subjectPublicKey'),
}, { ...root, check: (c) => c.purposes.length === 1 && !c.subjectKeyId.startsWith('mac:') });
export const deploymentCertificate = kind('deployment-certificate', 'deployment_certificate', {
  ...texts('h', 'controlsHash', 'manifestHash'), ...texts('t', 'deploymentId', 'version'),
}, root);
export const revocationList = kind('revocation-list', 'signer_certificate', {
  revoked: [{ exp: 'i', id: 't', kind: 't', reason: 't' }],
}, {
  ...root, size: 256 * 1024,
  check: (c) => c.revoked.every((r: Claims) => ['artifact', 'key'].includes(r.kind) && r.exp > 0 &&
    within(r.id, 256) && within(r.reason, 256)),
});
export const challengeToken = kind('challenge', 'challenge', {
  answers: [{ hash: 'h', id: 't', kind: 't', salt: 't' }], 'binding?': boundTo, 'bindingHash?': 's', difficulty: 't',
  tasksHash: 'h',
}, {
  check: async (c) => c.answers.length > 0 && (c.binding === undefined ? c.bindingHash === undefined
    : soundBinding(c.binding, true) && c.bindingHash === await bindingHash(c.binding)),
});
export const capability = kind('capability', 'capability', {
  binding: boundTo, ...texts('t', 'challengeId', 'decisionId?', 'grantId?'), verificationConsumed: 'b',
  'runtime?': {
    ...texts('t', 'attestationId', 'issuer', 'keyId', 'runtimeId'), ...texts('h', 'environmentHash', 'policyHash'),
    issuedAt: 'i', trigger,
  },
  'session?': { ...flags, ...texts('t', 'inputKind', 'receiptId', 'sessionId') },
}, { check: (c) => soundBinding(c.binding, true) });

/** What ties a post's artifacts to one operation. */
export interface Binding { action: string; contentHash: string; nonce?: string; resource: string; subject: string }

export const soundBinding = (b: Binding, nonce = false): boolean =>
  within(b.subject, 256) && within(b.action, 256) && within(b.resource, 2048) && isHash(b.contentHash) &&
  (!nonce || within(b.nonce, 256));

export const checkBinding = (b: Binding): void =>
  refuseIf(!soundBinding(b), 'artifact_malformed', 'the binding lacks a member, or one is too long');

export function bindingHash({ action, contentHash, nonce, resource, subject }: Binding): Promise<string> {
  return hash(canonical({ action, contentHash, ...(nonce && { nonce }), resource, subject }));
}

function soundHead({ headHash, number, openCalls = [] }: Claims): boolean {
  return number >= 0 && (number === 0) === (headHash === undefined) && (headHash === undefined || isHash(headHash)) &&
    openCalls.length <= 128 &&
    openCalls.every((id: string, i: number) => within(id, 64) && (i === 0 || openCalls[i - 1] < id));
}

const malformed = (typ: string): never => refuse('artifact_malformed', `the claims of the ${typ} are malformed`);

/** The claims of a payload. It must be exactly as the mediator writes it. */
export async function decode(k: Kind, payload: Uint8Array): Promise<Claims> {
  const text = textOf(payload) ?? malformed(k.typ);
  let given: Json;
  try {
    given = JSON.parse(text) as Json;
  } catch {
    return malformed(k.typ);
  }
  if (!fits(k.claims, given) || canonical(given) !== text) malformed(k.typ);
  const c = given as Claims;
  const sound = within(c.iss, 256) && within(c.aud, 256) && within(c.jti, 256) && c.iat > 0 && c.exp > c.iat &&
    c.exp - c.iat <= k.lifetime && (!k.check || await k.check(c));
  return sound ? c : malformed(k.typ);
}

/** Whether a value has exactly the members of a shape, in their types. Loosely, a list may be null. */
export function fits(shape: Shape, value: Json, loosely = false): boolean {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return false;
  let there = 0;
  for (const [named, type] of Object.entries(shape)) {
    const optional = named.endsWith('?');
    const name = optional ? named.slice(0, -1) : named;
    if (!Object.hasOwn(value, name)) {
      if (!optional) return false;
      continue;
    }
    there++;
    const member = value[name]!;
    if (!is(type, member, loosely) || (optional && isEmpty(member))) return false;
  }
  return Object.keys(value).length === there;
}

const isEmpty = (v: Json) => v === '' || v === 0 || v === false || v === null || (Array.isArray(v) && v.length === 0);

function is(type: Type, value: Json, loosely: boolean): boolean {
  if (Array.isArray(type)) return Array.isArray(value) && value.every((item) => fits(type[0], item, loosely));
  switch (type) {
    case 't': return isText(value, loosely) && (loosely || within(value, 2048));
    case 'h': return isText(value, loosely) && (loosely || isHash(value));
    case 's': return isText(value, loosely);
    case 'b': return typeof value === 'boolean';
    case 'i': return Number.isSafeInteger(value) || (loosely && typeof value === 'number');
    case 'f': return typeof value === 'number';
    case 'l': return (loosely && value === null) ||
      (Array.isArray(value) && value.every((item) => is('t', item, loosely)));
  }
  return fits(type, value, loosely);
}

const isText = (value: Json, loosely: boolean) => typeof value === 'string' && (loosely || value.isWellFormed());

/** A token, taken apart. Nothing of it is verified. */
export interface Parsed { kid: string; payload: Uint8Array; signature: Uint8Array; input: string; second?: string }

/** Key ids of headers that were read before: those of one key are the same. */
const heads = new Map<string, string>();
const MAX_HEADS = 256;

/** Takes a compact JWS apart, whose header must be exactly as the mediator writes it. */
export function parse(token: string, alg: string, typ: string, limit: number): Parsed {
  refuseIf(token === '', 'artifact_missing', `the ${typ} is missing`);
  const bad = (): never => refuse('artifact_malformed', `the ${typ} is not a compact JWS in its one spelling`);
  const parts = token.split('.');
  if (token.length > limit || parts.length !== 3) bad();
  const [payload = bad(), signature = bad()] = parts.slice(1).map((part) => fromBase64url(part) ?? bad());
  const input = token.slice(0, token.lastIndexOf('.'));
  const known = `${alg} ${typ} ${parts[0]}`;
  const before = heads.get(known);
  if (before !== undefined) return { kid: before, payload, signature, input };
  const text = textOf(fromBase64url(parts[0]!) ?? bad()) ?? bad();
  let kid: unknown;
  try {
    kid = (JSON.parse(text) as Members | null)?.kid;
  } catch {
    return bad();
  }
  if (!within(kid, 256) || text !== canonical({ alg, kid: kid as string, typ })) bad();
  if (!(kid as string).isWellFormed()) bad();
  if (heads.size >= MAX_HEADS) heads.clear();
  heads.set(known, kid as string);
  return { kid: kid as string, payload, signature, input };
}

/** The claims of a token of which only the form is checked. */
export async function unverified(k: Kind, token: string): Promise<Claims> {
  const alg = ['challenge', 'capability'].includes(k.purpose) ? 'HS256' : 'EdDSA';
  return decode(k, (k.root ? parseRooted(token, k) : parse(token, alg, k.typ, k.size)).payload);
}

/** Takes a root's token apart, which may be two JWS joined by ~. */
export function parseRooted(token: string, k: Kind): Parsed {
  if (token.length > k.size) throw new Refusal('artifact_malformed', `the ${k.typ} is too large`);
  const at = token.indexOf('~');
  const p = parse(at < 0 ? token : token.slice(0, at), 'EdDSA', k.typ, k.size);
  const second = at < 0 ? undefined : token.slice(at + 1);
  refuseIf(second === '', 'artifact_malformed', `the ${k.typ} announces a second signature but has none`);
  return second === undefined ? p : { ...p, second };
}
