// The chain of one post, the capability that it earns, and the post itself.
import { timingSafeEqual } from 'node:crypto';
import { canonical, strictJSON } from './canonical.mjs';
import { bindingHash, checkBinding } from './claims.mjs';
import { Refusal, bytesIn, hash, isHash, tokenHash, refuse, refuseIf } from './refusal.mjs';
import { keyAmong, openOwn } from './token.mjs';

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
    refuseIf(c.deploymentId !== deploymentId || !deploymentCertificatePolicy.allowedDeploymentIds.includes(c.deploymentId), 'deployment_id_not_allowed');
    refuseIf(c.manifestHash !== hash(canonical(this.manifest)), 'deployment_manifest_mismatch');
    refuseIf(c.controlsHash !== hash(canonical(controls)), 'deployment_controls_mismatch');
  }

  own(typ, token, milliseconds) {
    return openOwn(typ, token, this.secret, { issuers: [this.name], audiences: [this.name], maxAge: milliseconds / 1000 }, this.clock);
  }

  work({ challengeToken, response }, asked) {
    checkBinding(asked);
    const c = this.own('challenge+jwt', challengeToken, this.manifest.maxChallengeAgeMs);
    refuseIf(!c.binding || !sameAction(c.binding, asked), 'challenge_binding_mismatch');
    refuseIf(response.challengeId !== c.jti, 'response_other_challenge');
    const { answers } = response;
    refuseIf(Object.keys(answers).length !== c.answers.length || c.answers.some(({ id }) => !Object.hasOwn(answers, id)), 'response_incomplete');
    refuseIf(c.answers.some(({ id }) => !isHash(answers[id])), 'response_malformed');
    const right = c.answers.map(({ id, salt, hash: want }) => timingSafeEqual(Buffer.from(hash([salt, c.jti, id, answers[id]].join('\0'))), Buffer.from(want)));
    refuseIf(right.includes(false), 'response_wrong');
    return c;
  }

  trigger({ e, bindingHash: bound, origin: o, receipt: r }) {
    const [receipt, proof] = [this.policy('trigger-receipt+jwt'), this.policy('trigger-origin-proof+jwt')];
    demand([
      [o.bindingHash, bound, 'origin_binding_mismatch'], [r.bindingHash, bound, 'receipt_binding_mismatch'], [r.originProofHash, tokenHash(e.originProof), 'receipt_other_origin'],
      [r.eventId, o.eventId, 'receipt_event_mismatch'], [r.payloadHash, o.payloadHash, 'receipt_event_mismatch'],
      [r.kind, o.kind, 'receipt_source_mismatch'], [r.source, o.source, 'receipt_source_mismatch'],
    ]);
    refuseIf(r.humanInitiated, 'trigger_human');
    refuseIf(![KINDS, proof.allowedKinds, receipt.allowedKinds].every((list) => list.includes(o.kind)), 'trigger_kind_not_allowed');
    refuseIf(![proof.allowedSources, receipt.allowedSources].every((list) => list.includes(o.source)), 'trigger_source_not_allowed');
    refuseIf(![METHODS, proof.allowedVerificationMethods].every((list) => list.includes(o.verificationMethod)), 'trigger_method_not_allowed');
    for (const [pin, got] of [
      [receipt.requiredPayloadHash, r.payloadHash], [receipt.requiredBindingHash, r.bindingHash], [proof.requiredPayloadHash, o.payloadHash],
      [proof.requiredBindingHash, o.bindingHash], [proof.requiredEvidenceHash, o.evidenceHash],
    ]) refuseIf(pin && pin !== got, 'trigger_pin_mismatch');
  }

  decision({ work, binding: b, bindingHash: bound, origin: o, decision: d }) {
    refuseIf(d.humanInitiated, 'decision_human');
    demand([
      [d.decision, 'allow', 'decision_not_allow'], [d.bindingHash, bound, 'decision_binding_mismatch'], [d.contentHash, b.contentHash, 'decision_content_mismatch'],
      [d.subject, b.subject, 'decision_subject_mismatch'], [d.action, b.action, 'decision_action_mismatch'], [d.resource, b.resource, 'decision_resource_mismatch'],
      [d.challengeId, work.jti, 'decision_challenge_mismatch'], [d.triggerEventId, o.eventId, 'decision_event_mismatch'],
      [d.triggerKind, o.kind, 'decision_event_mismatch'], [d.triggerSource, o.source, 'decision_event_mismatch'],
      [d.originVerificationMethod, o.verificationMethod, 'decision_origin_mismatch'], [d.originEvidenceId, o.evidenceId, 'decision_origin_mismatch'],
      [d.originEvidenceHash, o.evidenceHash, 'decision_origin_mismatch'], ...pinned(d, this.manifest.runtimePolicy),
    ]);
  }

  grant({ e, binding: b, bindingHash: bound, decision: d, grant: g }) {
    for (const [list, want, code] of [
      [g.policyDecisionIds, d.jti, 'grant_other_decision'], [g.policyDecisionHashes, tokenHash(e.policyDecision), 'grant_other_decision'],
      [g.actions, b.action, 'grant_action_mismatch'], [g.resources, b.resource, 'grant_resource_mismatch'],
      [g.contentHashes, b.contentHash, 'grant_content_mismatch'], [g.bindingHashes, bound, 'grant_binding_mismatch'],
      [g.runtimeIds, d.runtimeId, 'grant_runtime_mismatch'], [g.triggerEventIds, d.triggerEventId, 'grant_event_mismatch'],
      [g.triggerSources, d.triggerSource, 'grant_event_mismatch'], [g.originVerificationMethods, d.originVerificationMethod, 'grant_origin_mismatch'],
      [g.originEvidenceIds, d.originEvidenceId, 'grant_origin_mismatch'], [g.originEvidenceHashes, d.originEvidenceHash, 'grant_origin_mismatch'],
    ]) refuseIf(!list.includes(want), code);
    demand([[g.subject, b.subject, 'grant_subject_mismatch'], [g.policyHash, d.policyHash, 'policy_hash_mismatch'], [g.environmentHash, d.environmentHash, 'environment_mismatch']]);
  }

  attestation({ e, work, binding: b, bindingHash: bound, receipt: r, decision: d, runtime: a }) {
    const p = this.manifest.runtimePolicy;
    refuseIf(a.humanInteractive, 'attestation_human');
    refuseIf(p.allowedRuntimeIds?.length && !p.allowedRuntimeIds.includes(a.runtimeId), 'runtime_not_allowed');
    refuseIf(!triggerKinds(p).includes(a.trigger.kind), 'attestation_trigger_kind');
    demand([
      [a.mode, 'autonomous', 'attestation_mode'], [a.challengeId, work.jti, 'attestation_challenge_mismatch'], [a.bindingHash, bound, 'attestation_binding_mismatch'],
      [a.contentHash, b.contentHash, 'attestation_content_mismatch'], [a.runtimeId, d.runtimeId, 'attestation_runtime_mismatch'],
      [a.triggerReceiptHash, tokenHash(e.triggerReceipt), 'attestation_other_receipt'], [a.trigger.id, r.eventId, 'attestation_event_mismatch'],
      [a.trigger.kind, r.kind, 'attestation_event_mismatch'], [a.trigger.source, r.source, 'attestation_event_mismatch'], ...pinned(a, p),
    ]);
  }

  session({ work, bindingHash: bound, receipt: r, runtime: a, session: s }) {
    const p = this.manifest.agentSessionReceiptPolicy;
    refuseIf(s.humanPromptPresent, 'session_human_prompt');
    refuseIf(s.humanOperatorPresent, 'session_human_operator');
    refuseIf(s.userShellAccess, 'session_user_shell');
    refuseIf(s.agentEnvironmentUserAccessible, 'session_user_environment');
    refuseIf(p.deniedInputKinds.includes(s.inputKind) || !p.allowedInputKinds.includes(s.inputKind), 'session_input_kind');
    refuseIf(!p.allowedRuntimeIds.includes(s.runtimeId), 'runtime_not_allowed');
    demand([
      [s.runtimeId, a.runtimeId, 'session_runtime_mismatch'], [s.challengeId, work.jti, 'session_challenge_mismatch'], [s.bindingHash, bound, 'session_binding_mismatch'],
      [s.eventId, r.eventId, 'session_event_mismatch'], [s.inputKind, r.kind, 'session_event_mismatch'], [s.inputSource, r.source, 'session_event_mismatch'], ...pinned(s, p),
    ]);
  }

  /** Verifies a capability and the request proof over it against the request itself. */
  authorize({ capability, requestProof, accessTokenHash, binding }) {
    checkBinding(binding);
    const c = this.own('capability+jwt', capability, this.manifest.maxCapabilityAgeMs);
    refuseIf(!sameAction(c.binding, binding), 'capability_binding_mismatch');
    refuseIf(!c.verificationConsumed, 'capability_unconsumed');
    refuseIf(!c.runtime || !c.session, 'capability_without_evidence');
    refuseIf(!c.decisionId || !c.grantId, 'capability_without_grant');
    const { humanPromptPresent, humanOperatorPresent, userShellAccess, agentEnvironmentUserAccessible } = c.session;
    refuseIf(humanPromptPresent || humanOperatorPresent || userShellAccess || agentEnvironmentUserAccessible, 'capability_human_session');
    this.runtimeOf(c.runtime);
    this.trust.notRevoked(c.runtime.keyId, [c.jti, c.decisionId, c.grantId, c.runtime.attestationId, c.session.receiptId], this.clock);
    const p = this.open('request-proof+jwt', requestProof);
    demand([
      [p.accessTokenHash, accessTokenHash, 'proof_access_token'], [p.capabilityId, c.jti, 'proof_other_capability'], [p.bindingHash, bindingHash(c.binding), 'proof_binding_mismatch'],
      ...['contentHash', 'subject', 'action', 'resource'].map((name) => [p[name], c.binding[name], 'proof_binding_mismatch']),
    ]);
  }

  runtimeOf(r) {
    const p = this.manifest.runtimePolicy;
    const ids = p.allowedRuntimeIds?.length ? p.allowedRuntimeIds : this.manifest.agentSessionReceiptPolicy.allowedRuntimeIds;
    const allowed = p.allowedIssuers.includes(r.issuer) && keyAmong(p.allowedKeyIds, r.keyId) && ids.includes(r.runtimeId) &&
      triggerKinds(p).includes(r.trigger.kind) && p.triggerReceiptPolicy.allowedSources.includes(r.trigger.source) &&
      r.policyHash === p.requiredPolicyHash && r.environmentHash === p.requiredEnvironmentHash;
    refuseIf(!allowed, 'capability_runtime_not_allowed');
    const age = this.clock.at - r.issuedAt;
    refuseIf(age > p.maxAttestationAgeMs / 1000 + this.clock.skew || age < -this.clock.skew, 'capability_attestation_too_old');
  }
}

const tokens = ['challengeToken', 'originProof', 'triggerReceipt', 'policyDecision', 'grant', 'attestation', 'sessionReceipt', 'deploymentCertificate'];
const envelope = { ...Object.fromEntries(tokens.map((name) => [name, ''])), response: { challengeId: '', answers: new Map() } };
const request = { envelope, binding: { action: '', contentHash: '', nonce: '', resource: '', subject: '' }, assurance: false };

/** Reads a request to verify, given as text: what is missing or null is empty, and nothing else than what is known may be there. */
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

const pinned = (claims, policy) => [
  [claims.policyHash, policy.requiredPolicyHash, 'policy_hash_mismatch'], [claims.environmentHash, policy.requiredEnvironmentHash, 'environment_mismatch'],
];

const sameAction = (a, b) => ['subject', 'action', 'resource', 'contentHash'].every((name) => a[name] === b[name]);
