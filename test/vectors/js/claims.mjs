// The claims of each artifact, and what a payload has to be.
import { canonical } from './canonical.mjs';
import { decision, resolution, soundDecision, soundResolution } from './disputeclaims.mjs';
import { receipt, soundEnforcement, soundHead, soundReceipt } from './receipt.mjs';
import { reputation, soundReputation } from './reputation.mjs';
import { score, soundScore } from './score.mjs';
import { soundVerification, verification } from './verification.mjs';
import { bytesIn, hash, isHash, looseJSON, refuse, refuseIf } from './refusal.mjs';

// Types: t text, not empty; h hash; b boolean; i integer; d number; l list of texts; m list of numbers; s any text; an object for an object; [object] for a list of
// them. A ? is optional.
const registered = { aud: 's', exp: 'i', iat: 'i', iss: 's', jti: 's' };
const key = { keyCustody: 't', keyExportable: 'b' };
const trigger = { id: 't', kind: 't', source: 't' };
const binding = { action: 's', contentHash: 's', 'nonce?': 's', resource: 's', subject: 's' };
const DAY = 24 * 3600;

export const kinds = {
  'trigger-origin-proof+jwt': {
    purpose: 'trigger_origin_proof',
    claims: { bindingHash: 'h', eventId: 't', evidenceHash: 'h', evidenceId: 't', kind: 't', payloadHash: 'h', source: 't', verificationMethod: 't' },
  },
  'trigger-receipt+jwt': {
    purpose: 'trigger_receipt',
    claims: { bindingHash: 'h', eventId: 't', humanInitiated: 'b', kind: 't', originProofHash: 'h', payloadHash: 'h', source: 't' },
  },
  'policy-decision+jwt': {
    purpose: 'policy_decision',
    claims: {
      ...key, action: 't', bindingHash: 'h', challengeId: 't', contentHash: 'h', decision: 't', environmentHash: 'h', humanInitiated: 'b',
      originEvidenceHash: 'h', originEvidenceId: 't', originVerificationMethod: 't', policyHash: 'h', 'reputationHash?': 'h', resource: 't', rule: 't', runtimeId: 't',
      subject: 't', triggerEventId: 't', triggerKind: 't', triggerSource: 't',
    },
  },
  'action-grant+jwt': {
    purpose: 'action_grant',
    claims: {
      ...key, actions: 'l', bindingHashes: 'l', contentHashes: 'l', environmentHash: 'h', originEvidenceHashes: 'l', originEvidenceIds: 'l',
      originVerificationMethods: 'l', policyDecisionHashes: 'l', policyDecisionIds: 'l', policyHash: 'h', resources: 'l', runtimeIds: 'l',
      subject: 't', triggerEventIds: 'l', triggerSources: 'l',
    },
    check: (c) => Object.values(c).every((v) => !Array.isArray(v) || v.length > 0),
  },
  'runtime-attestation+jwt': {
    purpose: 'runtime_attestation',
    shared: true,
    claims: {
      ...key, bindingHash: 'h', challengeId: 't', contentHash: 'h', environmentHash: 'h', humanInteractive: 'b', mode: 't', 'observed?': 'l',
      policyHash: 'h', runtimeId: 't', trigger, triggerReceiptHash: 'h',
    },
  },
  'agent-session-receipt+jwt': {
    purpose: 'agent_session',
    claims: {
      ...key, agentEnvironmentUserAccessible: 'b', 'agentPod?': 't', bindingHash: 'h', challengeId: 't', 'enforcement?': 't', environmentHash: 'h', eventId: 't', humanOperatorPresent: 'b',
      humanPromptPresent: 'b', inputKind: 't', inputSource: 't', 'interactions?': { 'headHash?': 's', number: 'i', 'openCalls?': 'l' }, 'observed?': 'l', policyHash: 'h', runtimeId: 't', sessionId: 't',
      transcriptHash: 'h', userShellAccess: 'b',
    },
    check: (c) => (c.interactions === undefined || soundHead(c.interactions)) && soundEnforcement(c.enforcement) && bytesIn(c.agentPod ?? '') <= 256,
  },
  'interaction-receipt+jwt': { purpose: 'interaction_receipt', claims: { ...key, ...receipt }, check: soundReceipt },
  'agent-statement+jwt': {
    purpose: 'agent_statement',
    claims: {
      ...key, agent: 't', bindingHash: 'h', eventId: 't', kind: 't', nonHumanIdentityProven: 'b', owner: 't', probabilistic: 'b', session: 't', statementHash: 'h',
    },
    check: (c) => c.exp - c.iat === 600 && c.probabilistic && !c.nonHumanIdentityProven && ['signal', 'contract', 'challenge'].includes(c.kind)
      && bytesIn(c.owner) === 43 && bytesIn(c.keyCustody) <= 64 && bytesIn(c.agent) <= 256 && bytesIn(c.eventId) <= 256 && bytesIn(c.session) <= 128,
  },
  'autonomy-score+jwt': { purpose: 'appraiser', claims: { ...key, ...score }, check: soundScore },
  'reputation+jwt': { purpose: 'appraiser', claims: { ...key, ...reputation }, check: soundReputation },
  'dispute-resolution+jwt': { purpose: 'appraiser', lifetime: 400 * DAY, claims: { ...key, ...resolution }, check: soundResolution },
  'dispute-decision+jwt': { purpose: 'dispute_arbiter', root: true, lifetime: 7 * DAY, claims: decision, check: soundDecision },
  'verification-result+jwt': { purpose: 'appraiser', lifetime: DAY, claims: { ...key, ...verification }, check: soundVerification },
  'request-proof+jwt': {
    purpose: 'request_proof',
    claims: { ...key, accessTokenHash: 'h', action: 't', bindingHash: 'h', capabilityId: 't', contentHash: 'h', resource: 't', subject: 't' },
  },
  'signer-custody-certificate+jwt': {
    purpose: 'signer_certificate',
    root: true,
    lifetime: 400 * DAY,
    claims: {
      accessibleToAgent: 'b', accessibleToUsers: 'b', keyCustody: 't', keyExportable: 'b', 'observed?': 'l', purposes: 'l', subjectIssuer: 't',
      subjectKeyId: 't', subjectPublicKey: 't', subjectPublicKeyHash: 'h',
    },
    check: (c) => c.purposes.length === 1 && !c.subjectKeyId.startsWith('mac:'),
  },
  'deployment-certificate+jwt': {
    purpose: 'deployment_certificate',
    root: true,
    lifetime: 400 * DAY,
    claims: { controlsHash: 'h', deploymentId: 't', manifestHash: 'h', version: 't' },
  },
  'revocation-list+jwt': {
    purpose: 'signer_certificate',
    root: true,
    lifetime: 400 * DAY,
    size: 256 * 1024,
    claims: { revoked: [{ exp: 'i', id: 't', kind: 't', reason: 't' }] },
    check: (c) => c.revoked.every((r) => ['artifact', 'key'].includes(r.kind) && r.exp > 0 && bytesIn(r.id) <= 256 && bytesIn(r.reason) <= 256),
  },
  'challenge+jwt': {
    own: true,
    claims: { answers: [{ hash: 'h', id: 't', kind: 't', salt: 't' }], 'binding?': binding, 'bindingHash?': 's', difficulty: 't', tasksHash: 'h' },
    check: (c) => c.answers.length > 0 && c.bindingHash === (c.binding && (checkBinding(c.binding, true), bindingHash(c.binding))),
  },
  'capability+jwt': {
    own: true,
    claims: {
      binding, challengeId: 't', 'decisionId?': 't', 'grantId?': 't',
      'runtime?': { attestationId: 't', environmentHash: 'h', issuedAt: 'i', issuer: 't', keyId: 't', policyHash: 'h', runtimeId: 't', trigger },
      'session?': {
        agentEnvironmentUserAccessible: 'b', humanOperatorPresent: 'b', humanPromptPresent: 'b', inputKind: 't', receiptId: 't', sessionId: 't', userShellAccess: 'b',
      },
      verificationConsumed: 'b',
    },
    check: (c) => (checkBinding(c.binding, true), true),
  },
};

/** Refuses a binding that is not well-formed. */
export function checkBinding(b, nonce) {
  const within = (text, bound) => typeof text === 'string' && text !== '' && bytesIn(text) <= bound;
  const good = within(b.subject, 256) && within(b.action, 256) && within(b.resource, 2048) && isHash(b.contentHash ?? '') && (!nonce || within(b.nonce, 256));
  refuseIf(!good, 'artifact_malformed');
}

export function bindingHash({ action, contentHash, nonce, resource, subject }) {
  return hash(canonical(nonce ? { action, contentHash, nonce, resource, subject } : { action, contentHash, resource, subject }));
}

/** The claims of a payload of a kind. */
export function decode(kind, payload) {
  let given;
  try {
    given = looseJSON(payload);
  } catch {
    refuse('artifact_malformed');
  }
  const members = { ...registered, ...kind.claims };
  const claims = rebuilt(members, given);
  refuseIf(!Buffer.from(canonical(claims)).equals(payload), 'artifact_malformed');
  for (const name of ['iss', 'aud', 'jti']) refuseIf(claims[name] === '' || bytesIn(claims[name]) > 256, 'artifact_malformed');
  refuseIf(
    claims.iat <= 0 || claims.exp <= claims.iat || (claims.exp - claims.iat > (kind.lifetime ?? 600)), 'artifact_malformed');
  check(members, claims);
  refuseIf(kind.check && !kind.check(claims), 'artifact_malformed');
  return claims;
}

/** The object with exactly the members of a type: what is missing has its empty value, what is optional and empty is not there. */
function rebuilt(members, given) {
  refuseIf(given === null || typeof given !== 'object' || Array.isArray(given), 'artifact_malformed');
  const out = {};
  const types = Object.fromEntries(Object.entries(members).map(([name, type]) => [name.replace('?', ''), [type, name.endsWith('?')]]));
  refuseIf(Object.keys(given).some((name) => !Object.hasOwn(types, name)), 'artifact_malformed');
  for (const [name, [type, optional]] of Object.entries(types)) {
    const there = Object.hasOwn(given, name);
    const value = there ? typed(type, given[name]) : empty(type);
    if (!optional || (there && !['', 0, false].includes(value) && value.length !== 0)) out[name] = value;
  }
  return out;
}

const isNumber = (value) => Number.isFinite(value) && !Object.is(value, -0);

function typed(type, value) {
  if (Array.isArray(type)) {
    refuseIf(!Array.isArray(value), 'artifact_malformed');
    return value.map((item) => rebuilt(type[0], item));
  }
  if (typeof type === 'object') return rebuilt(type, value);
  const good = {
    t: typeof value === 'string', h: typeof value === 'string', s: typeof value === 'string', b: typeof value === 'boolean', i: Number.isSafeInteger(value),
    d: isNumber(value), l: Array.isArray(value) && value.every((item) => typeof item === 'string'), m: Array.isArray(value) && value.every(isNumber),
  }[type];
  refuseIf(!good, 'artifact_malformed');
  return value;
}

function empty(type) {
  if (Array.isArray(type)) return [];
  if (typeof type === 'object') return {};
  return { b: false, i: 0, d: 0, l: [], m: [] }[type] ?? '';
}

function check(members, claims) {
  for (const [name, type] of Object.entries(members)) {
    const value = claims[name.replace('?', '')];
    if (value === undefined) continue;
    for (const text of { t: [value], l: value }[type] ?? []) refuseIf(text === '' || bytesIn(text) > 2048, 'artifact_malformed');
    if (type === 'h') refuseIf(!isHash(value), 'artifact_malformed');
    if (Array.isArray(type)) value.forEach((item) => check(type[0], item));
    else if (typeof type === 'object') check(type, value);
  }
}
