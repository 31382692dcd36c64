// The chain of one post, step by step. The first failure decides, so that a chain is always refused for one reason.
import { isHash, hash, sameSecret, tokenHash } from './bytes.js';
import * as a from './claims.js';
import type { Claims } from './claims.js';
import { KINDS, METHODS, type Strict } from './manifest.js';
import { refuse, refuseIf } from './refusal.js';
import { nameAmong } from './trust.js';

/** The form of an envelope, with empty values. */
export const emptyEnvelope = {
  attestation: '', challengeToken: '', deploymentCertificate: '', grant: '', originProof: '', policyDecision: '',
  response: { answers: { '*': '' } as Record<string, string>, challengeId: '' }, sessionReceipt: '',
  triggerReceipt: '',
};
export type Envelope = typeof emptyEnvelope;

/** How a gate opens an artifact of the chain, and its own tokens. */
export interface Openers {
  strict: Strict;
  open: (kind: a.Kind, token: string, want: Strict['decision']) => Promise<{ claims: Claims; kid: string }>;
  own: (kind: a.Kind, token: string, maxAge: number) => Promise<Claims>;
}

/** What a whole chain says. */
export interface Chain {
  work: Claims;
  origin: Claims;
  receipt: Claims;
  decision: Claims;
  grant: Claims;
  attestation: Claims;
  attestedBy: string;
  session: Claims;
}

/** Refuses the first pair that differs. */
export function same(code: string, what: string, ...pairs: [unknown, unknown][]): void {
  refuseIf(pairs.some(([got, want]) => got !== want), code, `the ${what} does not match the rest of the chain`);
}

export const sameAction = (x: a.Binding, y: a.Binding): boolean => x.subject === y.subject && x.action === y.action &&
  x.resource === y.resource && x.contentHash === y.contentHash;

/** Verifies a whole chain for one operation. It consumes nothing. */
export async function verifyChain(g: Openers, e: Envelope, asked: a.Binding): Promise<Chain> {
  const s = g.strict;
  await verifyDeployment(g, e.deploymentCertificate);
  const work = await verifyWork(g, e, asked);
  const bound: string = work.bindingHash;
  const { claims: origin } = await g.open(a.originProof, e.originProof, s.origin);
  const { claims: receipt } = await g.open(a.triggerReceipt, e.triggerReceipt, s.receipt);
  checkTrigger(s, origin, receipt, await tokenHash(e.originProof), bound);
  const { claims: decision } = await g.open(a.policyDecision, e.policyDecision, s.decision);
  checkDecision(s, work, origin, decision);
  const { claims: grant } = await g.open(a.actionGrant, e.grant, s.grant);
  checkGrant(work, decision, await tokenHash(e.policyDecision), grant);
  const { claims: attestation, kid: attestedBy } = await g.open(a.runtimeAttestation, e.attestation, s.runtime);
  checkAttestation(s, work, receipt, await tokenHash(e.triggerReceipt), attestation);
  same('artifacts_mismatch', 'runtime attestation', [attestation.runtimeId, decision.runtimeId]);
  same('pin_mismatch', 'runtime attestation', [attestation.environmentHash, decision.environmentHash]);
  const { claims: session } = await g.open(a.sessionReceipt, e.sessionReceipt, s.session);
  checkSession(s, work, receipt, attestation, session);
  return { work, origin, receipt, decision, grant, attestation, attestedBy, session };
}

export async function verifyDeployment(g: Openers, token: string): Promise<void> {
  const { strict: s } = g;
  const { claims: c } = await g.open(a.deploymentCertificate, token, s.deployment);
  refuseIf(c.deploymentId !== s.deploymentId || !s.deployment.ids.includes(c.deploymentId) ||
    c.manifestHash !== s.manifestHash || c.controlsHash !== s.controlsHash, 'deployment_mismatch',
    'the deployment certificate is for another deployment, manifest or controls');
}

async function verifyWork(g: Openers, { challengeToken, response }: Envelope, asked: a.Binding): Promise<Claims> {
  a.checkBinding(asked);
  const c = await g.own(a.challengeToken, challengeToken, g.strict.maxChallengeAge);
  const wrong = (what: string): never => refuse('challenge_refused', what);
  if (!c.binding || !sameAction(c.binding, asked)) wrong('the challenge is for another operation');
  const { answers, challengeId } = response;
  const tasks = c.answers as { hash: string; id: string; salt: string }[];
  if (challengeId !== c.jti || Object.keys(answers).length !== tasks.length ||
    tasks.some(({ id }) => !Object.hasOwn(answers, id) || !isHash(answers[id]))) {
    wrong('the response is to another challenge, or does not have one answer for each task');
  }
  let right = true;
  for (const t of tasks) { // all, so that neither time nor refusal tells which was wrong
    const given = await hash([t.salt, c.jti, t.id, answers[t.id]].join('\0'));
    right = sameSecret(given, t.hash) && right;
  }
  return right ? c : wrong('an answer is wrong');
}

export function checkTrigger(s: Strict, o: Claims, r: Claims, proofHash: string, bound: string): void {
  same('artifacts_mismatch', 'trigger', [o.bindingHash, bound], [r.bindingHash, bound],
    [r.originProofHash, proofHash],
    [r.eventId, o.eventId], [r.payloadHash, o.payloadHash], [r.kind, o.kind], [r.source, o.source]);
  refuseIf(r.humanInitiated, 'human_involved', 'the trigger receipt says that a human requested the event');
  refuseIf(![KINDS, s.origin.kinds, s.receipt.kinds].every((list) => list.includes(o.kind)) ||
    ![s.origin.sources, s.receipt.sources].every((list) => list.includes(o.source)) ||
    ![METHODS, s.origin.methods].every((list) => list.includes(o.verificationMethod)), 'not_allowed',
    'the policy does not allow the kind, source or verification method of the trigger');
  for (const [pin, got] of [
    [s.receipt.payloadHash, r.payloadHash], [s.receipt.bindingHash, r.bindingHash],
    [s.origin.payloadHash, o.payloadHash],
    [s.origin.bindingHash, o.bindingHash], [s.origin.evidenceHash, o.evidenceHash],
  ]) refuseIf(pin && pin !== got, 'not_allowed', 'the trigger lacks a hash that the manifest requires');
}

const pinned = (s: Strict, what: string, c: Claims): void => same('pin_mismatch', what,
  [s.runtime.environments.includes(c.environmentHash), true], [c.policyHash, s.runtime.policyHash]);

export function checkDecision(s: Strict, work: Claims, o: Claims, d: Claims): void {
  const b = work.binding;
  refuseIf(d.humanInitiated, 'human_involved', 'the policy decision says that a human asked for the post');
  refuseIf(d.decision !== 'allow', 'policy_denied', 'the policy decision does not allow the post');
  same('artifacts_mismatch', 'policy decision', [d.bindingHash, work.bindingHash], [d.contentHash, b.contentHash],
    [d.subject, b.subject], [d.action, b.action], [d.resource, b.resource], [d.challengeId, work.jti],
    [d.triggerEventId, o.eventId], [d.triggerKind, o.kind], [d.triggerSource, o.source],
    [d.originVerificationMethod, o.verificationMethod], [d.originEvidenceId, o.evidenceId],
    [d.originEvidenceHash, o.evidenceHash]);
  pinned(s, 'policy decision', d);
}

export function checkGrant(work: Claims, d: Claims, decisionHash: string, g: Claims): void {
  const b = work.binding;
  same('artifacts_mismatch', 'action grant', ...([
    [g.policyDecisionIds, d.jti], [g.policyDecisionHashes, decisionHash], [g.actions, b.action],
    [g.resources, b.resource], [g.contentHashes, b.contentHash], [g.bindingHashes, work.bindingHash],
    [g.runtimeIds, d.runtimeId], [g.triggerEventIds, d.triggerEventId], [g.triggerSources, d.triggerSource],
    [g.originVerificationMethods, d.originVerificationMethod], [g.originEvidenceIds, d.originEvidenceId],
    [g.originEvidenceHashes, d.originEvidenceHash],
  ] as [string[], string][]).map(([list, want]): [boolean, boolean] => [list.includes(want), true]),
  [g.subject, b.subject]);
  same('pin_mismatch', 'action grant', [g.policyHash, d.policyHash], [g.environmentHash, d.environmentHash]);
}

export function checkAttestation(s: Strict, work: Claims, r: Claims, receiptHash: string, c: Claims): void {
  refuseIf(c.humanInteractive || c.mode !== 'autonomous', 'human_involved',
    'the runtime attestation says that the run was not autonomous');
  refuseIf((s.runtime.ids.length > 0 && !nameAmong(s.runtime.ids, c.runtimeId)) ||
    !s.runtime.kinds.includes(c.trigger.kind), 'not_allowed', 'the policy does not allow the runtime or its trigger');
  same('artifacts_mismatch', 'runtime attestation', [c.challengeId, work.jti], [c.bindingHash, work.bindingHash],
    [c.contentHash, work.binding.contentHash], [c.triggerReceiptHash, receiptHash], [c.trigger.id, r.eventId],
    [c.trigger.kind, r.kind], [c.trigger.source, r.source]);
  pinned(s, 'runtime attestation', c);
}

/** Whether a session says that a human could take part in it. */
export const attended = (c: Claims): boolean =>
  c.humanPromptPresent || c.humanOperatorPresent || c.userShellAccess || c.agentEnvironmentUserAccessible;

export function checkSession(s: Strict, work: Claims, r: Claims, attestation: Claims, c: Claims): void {
  refuseIf(attended(c), 'human_involved', 'the session receipt says that a human could take part in the run');
  refuseIf(s.session.denied.includes(c.inputKind) || !s.session.inputKinds.includes(c.inputKind) ||
    !nameAmong(s.session.ids, c.runtimeId), 'not_allowed',
      'the policy does not allow the input or runtime of the session');
  same('artifacts_mismatch', 'agent session receipt', [c.runtimeId, attestation.runtimeId], [c.challengeId, work.jti],
    [c.bindingHash, work.bindingHash], [c.eventId, r.eventId], [c.inputKind, r.kind], [c.inputSource, r.source]);
  same('pin_mismatch', 'agent session receipt', [c.policyHash, s.session.policyHash],
    [c.environmentHash, attestation.environmentHash]);
}
