// The chain of one post, the capability that it earns, and the post itself.
import { timingSafeEqual } from 'node:crypto';
import { canonical, strictJSON } from './canonical.mjs';
import { bindingHash, checkBinding } from './claims.mjs';
import { Refusal, bytesIn, hash, isHash, tokenHash, refuse, refuseIf } from './refusal.mjs';
import { keyAmong, nameAmong, openOwn } from './token.mjs';

const MAX_REQUEST = 256 * 1024;
const PROTECTED = ['external_mediator', 'hardware_backed'];
const KINDS = ['source_event', 'scheduled', 'autonomous_policy'];
const METHODS = ['webhook_signature', 'scheduler_lock', 'policy_engine_decision', 'queue_claim', 'external_attestation'];

/** A gate: its name and secret, the manifest that it enforces, and whom it believes. */
export class Gate {
  constructor({ name, secret, manifest, trust, clock }) {
    Object.assign(this, { name, manifest, trust, clock, secret: Buffer.from(secret, 'base64url') });
  }

  /** Verifies a whole chain for one operation. */
  admit({ envelope: e, binding: asked }) {
    this.deployment(e.deploymentCertificate);
    const work = this.work(e, asked);
    const chain = { e, work, binding: work.binding, bindingHash: bindingHash(work.binding) };
    chain.origin = this.open('trigger-origin-proof+jwt', e.originProof);
    chain.receipt = this.open('trigger-receipt+jwt', e.triggerReceipt);
    this.trigger(chain);
    chain.decision = this.open('policy-decision+jwt', e.policyDecision);
    this.decision(chain);
    chain.grant = this.open('action-grant+jwt', e.grant);
    this.grant(chain);
    chain.runtime = this.open('runtime-attestation+jwt', e.attestation);
    this.attestation(chain);
    chain.session = this.open('agent-session-receipt+jwt', e.sessionReceipt);
    this.session(chain);
  }

  /** The manifest's policy for an artifact. */
  policy(typ) {
    const { runtimePolicy: runtime, ...m } = this.manifest;
    return {
      'runtime-attestation+jwt': runtime, 'trigger-receipt+jwt': runtime.triggerReceiptPolicy,
      'trigger-origin-proof+jwt': runtime.triggerReceiptPolicy.originProofPolicy, 'agent-session-receipt+jwt': m.agentSessionReceiptPolicy,
      'policy-decision+jwt': m.policyDecisionPolicy, 'action-grant+jwt': m.grantPolicy, 'request-proof+jwt': m.requestProofPolicy,
      'deployment-certificate+jwt': m.deploymentCertificatePolicy,
    }[typ];
  }

  open(typ, token) {
    const p = this.policy(typ);
    const ofRuntime = ['runtime-attestation+jwt', 'trigger-receipt+jwt', 'trigger-origin-proof+jwt'].includes(typ);
    const custody = ofRuntime ? this.manifest.runtimePolicy.allowedKeyCustody ?? PROTECTED : p.allowedKeyCustody;
    const age = Object.keys(p).find((name) => /^max.*AgeMs$/.test(name));
    return this.trust.open(typ, token, {
      issuers: p.allowedIssuers, audiences: p.allowedAudiences, keyIds: p.allowedKeyIds, maxAge: p[age] / 1000, custody,
      requireNonExportable: ofRuntime || p.requireNonExportableKey, requirePostQuantum: p.requirePostQuantumSignature,
    }, this.clock);
  }

  deployment(token) {
    const c = this.open('deployment-certificate+jwt', token);
    const { deploymentId, controls, deploymentCertificatePolicy } = this.manifest;
    refuseIf(
      c.deploymentId !== deploymentId || !deploymentCertificatePolicy.allowedDeploymentIds.includes(c.deploymentId) ||
      c.manifestHash !== hash(canonical(this.manifest)) || c.controlsHash !== hash(canonical(controls)), 'deployment_mismatch');
  }

  own(typ, token, milliseconds) {
    return openOwn(typ, token, this.secret, { issuers: [this.name], audiences: [this.name], maxAge: milliseconds / 1000 }, this.clock);
  }

  work({ challengeToken, response }, asked) {
    checkBinding(asked);
    const c = this.own('challenge+jwt', challengeToken, this.manifest.maxChallengeAgeMs);
    refuseIf(!c.binding || !sameAction(c.binding, asked) || response.challengeId !== c.jti, 'challenge_refused');
    const { answers } = response;
    refuseIf(
      Object.keys(answers).length !== c.answers.length || c.answers.some(({ id }) => !Object.hasOwn(answers, id)) ||
      c.answers.some(({ id }) => !isHash(answers[id])), 'challenge_refused');
    const right = c.answers.map(({ id, salt, hash: want }) => timingSafeEqual(Buffer.from(hash([salt, c.jti, id, answers[id]].join('\0'))), Buffer.from(want)));
    refuseIf(right.includes(false), 'challenge_refused');
    return c;
  }

  trigger({ e, bindingHash: bound, origin: o, receipt: r }) {
    const [receipt, proof] = [this.policy('trigger-receipt+jwt'), this.policy('trigger-origin-proof+jwt')];
    demand([
      [o.bindingHash, bound, 'artifacts_mismatch'], [r.bindingHash, bound, 'artifacts_mismatch'], [r.originProofHash, tokenHash(e.originProof), 'artifacts_mismatch'],
      [r.eventId, o.eventId, 'artifacts_mismatch'], [r.payloadHash, o.payloadHash, 'artifacts_mismatch'],
      [r.kind, o.kind, 'artifacts_mismatch'], [r.source, o.source, 'artifacts_mismatch'],
    ]);
    refuseIf(r.humanInitiated, 'human_involved');
    refuseIf(
      ![KINDS, proof.allowedKinds, receipt.allowedKinds].every((list) => list.includes(o.kind)) ||
      ![proof.allowedSources, receipt.allowedSources].every((list) => list.includes(o.source)) ||
      ![METHODS, proof.allowedVerificationMethods].every((list) => list.includes(o.verificationMethod)), 'not_allowed');
    for (const [pin, got] of [
      [receipt.requiredPayloadHash, r.payloadHash], [receipt.requiredBindingHash, r.bindingHash], [proof.requiredPayloadHash, o.payloadHash],
      [proof.requiredBindingHash, o.bindingHash], [proof.requiredEvidenceHash, o.evidenceHash],
    ]) refuseIf(pin && pin !== got, 'not_allowed');
  }

  decision({ work, binding: b, bindingHash: bound, origin: o, decision: d }) {
    refuseIf(d.humanInitiated, 'human_involved');
    demand([
      [d.decision, 'allow', 'policy_denied'], [d.bindingHash, bound, 'artifacts_mismatch'], [d.contentHash, b.contentHash, 'artifacts_mismatch'],
      [d.subject, b.subject, 'artifacts_mismatch'], [d.action, b.action, 'artifacts_mismatch'], [d.resource, b.resource, 'artifacts_mismatch'],
      [d.challengeId, work.jti, 'artifacts_mismatch'], [d.triggerEventId, o.eventId, 'artifacts_mismatch'],
      [d.triggerKind, o.kind, 'artifacts_mismatch'], [d.triggerSource, o.source, 'artifacts_mismatch'],
      [d.originVerificationMethod, o.verificationMethod, 'artifacts_mismatch'], [d.originEvidenceId, o.evidenceId, 'artifacts_mismatch'],
      [d.originEvidenceHash, o.evidenceHash, 'artifacts_mismatch'], ...pinned(d, this.manifest.runtimePolicy),
    ]);
  }

  grant({ e, binding: b, bindingHash: bound, decision: d, grant: g }) {
    for (const [list, want, code] of [
      [g.policyDecisionIds, d.jti, 'artifacts_mismatch'], [g.policyDecisionHashes, tokenHash(e.policyDecision), 'artifacts_mismatch'],
      [g.actions, b.action, 'artifacts_mismatch'], [g.resources, b.resource, 'artifacts_mismatch'],
      [g.contentHashes, b.contentHash, 'artifacts_mismatch'], [g.bindingHashes, bound, 'artifacts_mismatch'],
      [g.runtimeIds, d.runtimeId, 'artifacts_mismatch'], [g.triggerEventIds, d.triggerEventId, 'artifacts_mismatch'],
      [g.triggerSources, d.triggerSource, 'artifacts_mismatch'], [g.originVerificationMethods, d.originVerificationMethod, 'artifacts_mismatch'],
      [g.originEvidenceIds, d.originEvidenceId, 'artifacts_mismatch'], [g.originEvidenceHashes, d.originEvidenceHash, 'artifacts_mismatch'],
    ]) refuseIf(!list.includes(want), code);
    demand([[g.subject, b.subject, 'artifacts_mismatch'], [g.policyHash, d.policyHash, 'pin_mismatch'], [g.environmentHash, d.environmentHash, 'pin_mismatch']]);
  }

  attestation({ e, work, binding: b, bindingHash: bound, receipt: r, decision: d, runtime: a }) {
    const p = this.manifest.runtimePolicy;
    refuseIf(a.humanInteractive, 'human_involved');
    refuseIf(
      p.allowedRuntimeIds?.length && !nameAmong(p.allowedRuntimeIds, a.runtimeId) ||
      !triggerKinds(p).includes(a.trigger.kind), 'not_allowed');
    demand([
      [a.mode, 'autonomous', 'human_involved'], [a.challengeId, work.jti, 'artifacts_mismatch'], [a.bindingHash, bound, 'artifacts_mismatch'],
      [a.contentHash, b.contentHash, 'artifacts_mismatch'], [a.runtimeId, d.runtimeId, 'artifacts_mismatch'],
      [a.triggerReceiptHash, tokenHash(e.triggerReceipt), 'artifacts_mismatch'], [a.trigger.id, r.eventId, 'artifacts_mismatch'],
      [a.trigger.kind, r.kind, 'artifacts_mismatch'], [a.trigger.source, r.source, 'artifacts_mismatch'],
      ...pinned(a, p), [a.environmentHash, d.environmentHash, 'pin_mismatch'],
    ]);
  }

  session({ work, bindingHash: bound, receipt: r, runtime: a, session: s }) {
    const p = this.manifest.agentSessionReceiptPolicy;
    refuseIf(
      s.humanPromptPresent || s.humanOperatorPresent || s.userShellAccess || s.agentEnvironmentUserAccessible, 'human_involved');
    refuseIf(
      p.deniedInputKinds.includes(s.inputKind) || !p.allowedInputKinds.includes(s.inputKind) ||
      !nameAmong(p.allowedRuntimeIds, s.runtimeId), 'not_allowed');
    demand([
      [s.runtimeId, a.runtimeId, 'artifacts_mismatch'], [s.challengeId, work.jti, 'artifacts_mismatch'], [s.bindingHash, bound, 'artifacts_mismatch'],
      [s.eventId, r.eventId, 'artifacts_mismatch'], [s.inputKind, r.kind, 'artifacts_mismatch'], [s.inputSource, r.source, 'artifacts_mismatch'],
      [s.policyHash, p.requiredPolicyHash, 'pin_mismatch'], [s.environmentHash, a.environmentHash, 'pin_mismatch'],
    ]);
  }

  /** Verifies a capability and the request proof over it against the request itself. */
  authorize({ capability, requestProof, accessTokenHash, binding }) {
    checkBinding(binding);
    const c = this.own('capability+jwt', capability, this.manifest.maxCapabilityAgeMs);
    refuseIf(!sameAction(c.binding, binding), 'artifacts_mismatch');
    refuseIf(!c.verificationConsumed || !c.runtime || !c.session || !c.decisionId || !c.grantId, 'artifact_missing');
    const { humanPromptPresent, humanOperatorPresent, userShellAccess, agentEnvironmentUserAccessible } = c.session;
    refuseIf(humanPromptPresent || humanOperatorPresent || userShellAccess || agentEnvironmentUserAccessible, 'human_involved');
    this.runtimeOf(c.runtime);
    this.trust.notRevoked(c.runtime.keyId, [c.jti, c.decisionId, c.grantId, c.runtime.attestationId, c.session.receiptId], this.clock);
    const p = this.open('request-proof+jwt', requestProof);
    demand([
      [p.accessTokenHash, accessTokenHash, 'proof_access_token'], [p.capabilityId, c.jti, 'artifacts_mismatch'], [p.bindingHash, bindingHash(c.binding), 'artifacts_mismatch'],
      ...['contentHash', 'subject', 'action', 'resource'].map((name) => [p[name], c.binding[name], 'artifacts_mismatch']),
    ]);
  }

  runtimeOf(r) {
    const p = this.manifest.runtimePolicy;
    const ids = p.allowedRuntimeIds?.length ? p.allowedRuntimeIds : this.manifest.agentSessionReceiptPolicy.allowedRuntimeIds;
    const allowed = p.allowedIssuers.includes(r.issuer) && keyAmong(p.allowedKeyIds, r.keyId) && nameAmong(ids, r.runtimeId) &&
      triggerKinds(p).includes(r.trigger.kind) && p.triggerReceiptPolicy.allowedSources.includes(r.trigger.source) &&
      r.policyHash === p.requiredPolicyHash && environments(p).includes(r.environmentHash);
    refuseIf(!allowed, 'not_allowed');
    const age = this.clock.at - r.issuedAt;
    refuseIf(age > p.maxAttestationAgeMs / 1000 + this.clock.skew || age < -this.clock.skew, 'expired');
  }
}

const tokens = ['challengeToken', 'originProof', 'triggerReceipt', 'policyDecision', 'grant', 'attestation', 'sessionReceipt', 'deploymentCertificate'];
const envelope = { ...Object.fromEntries(tokens.map((name) => [name, ''])), response: { challengeId: '', answers: new Map() } };
const request = { envelope, binding: { action: '', contentHash: '', nonce: '', resource: '', subject: '' }, assurance: false };

/** Reads a request to verify from text. Missing and null mean empty; unknown members are refused. */
export function parseRequest(text) {
  try {
    refuseIf(bytesIn(text) > MAX_REQUEST, 'query_malformed');
    return shaped(request, strictJSON(Buffer.from(text)));
  } catch (error) {
    throw error instanceof Refusal ? new Refusal('query_malformed') : error;
  }
}

/** A value in the shape of another, which is its empty value; that of a Map is a text for any name. */
function shaped(empty, value) {
  if (value === null || value === undefined) return empty instanceof Map ? {} : typeof empty === 'object' ? shaped(empty, {}) : empty;
  refuseIf(typeof value !== typeof empty || Array.isArray(value), 'query_malformed');
  if (typeof value !== 'object') return value;
  if (empty instanceof Map) return Object.fromEntries(Object.entries(value).map(([name, text]) => [name, shaped('', text)]));
  refuseIf(Object.keys(value).some((name) => !Object.hasOwn(empty, name)), 'query_malformed');
  return Object.fromEntries(Object.entries(empty).map(([name, part]) => [name, shaped(part, value[name])]));
}

/** The kinds of trigger that a runtime attestation may name. */
function triggerKinds({ allowedTriggerKinds: allowed = [], deniedTriggerKinds: denied = [], triggerReceiptPolicy }) {
  return triggerReceiptPolicy.allowedKinds.filter((kind) => (!allowed.length || allowed.includes(kind)) && !denied.includes(kind));
}

/** Refuses the first pair that differs. */
function demand(pairs) {
  for (const [got, want, code] of pairs) if (got !== want) refuse(code);
}

/** What a runtime policy allows to run. */
const environments = ({ requiredEnvironmentHash, alsoEnvironmentHashes = [] }) => [requiredEnvironmentHash, ...alsoEnvironmentHashes];

const pinned = (claims, policy) => [
  [claims.policyHash, policy.requiredPolicyHash, 'pin_mismatch'], [environments(policy).includes(claims.environmentHash), true, 'pin_mismatch'],
];

const sameAction = (a, b) => ['subject', 'action', 'resource', 'contentHash'].every((name) => a[name] === b[name]);
