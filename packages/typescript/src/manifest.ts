// The deployment manifest: what the security team demands of each artifact, and the safeguards that it must not lack.
import { hash, isHash } from './bytes.js';
import { type Claims, type Shape, fits } from './claims.js';
import { canonical, strictJSON } from './json.js';
import { Refusal, refuse, refuseIf } from './refusal.js';
import { type Expected, type SignerPolicy, keyName, nameAmong } from './trust.js';

const MAX_MANIFEST = 256 * 1024;
export const KINDS = ['source_event', 'scheduled', 'autonomous_policy'];
export const METHODS = ['webhook_signature', 'scheduler_lock', 'policy_engine_decision', 'queue_claim',
  'external_attestation'];
const CUSTODY = ['external_mediator', 'hardware_backed'];

const allowed: Shape = { allowedIssuers: 'l', allowedAudiences: 'l', allowedKeyIds: 'l' };
const custody: Shape = { ...allowed, allowedKeyCustody: 'l', requireNonExportableKey: 'b' };
const all = (type: 'b' | 's' | 'l' | 'i', names: string): Shape =>
  Object.fromEntries(names.split(' ').map((name) => [name, type]));

// The controls that must be true; those that must be false.
export const REQUIRED = 'proofRequiredForPost deploymentCertificateRequired agentSessionReceiptRequiredForPost ' +
  'requestProofRequiredForPost accessTokenSenderConstrained signerCustodyCertificatesRequired ' +
  'policyDecisionRequiredForPost grantRequiresPolicyDecision consumeVerification consumeCapability ' +
  'atomicConsumptionWithPost';
export const DENIED = 'bearerTokenAloneCanPost directUserPostingAllowed agentSessionSignerAccessibleToAgent ' +
  'agentSessionSignerAccessibleToUsers agentSessionAcceptsHumanPrompts agentSessionAllowsHumanOperators ' +
  'agentSessionAllowsUserShellAccess agentEnvironmentAccessibleToUsers agentSessionCanBeMintedByRuntimeSigner ' +
  'requestProofSignerAccessibleToAgent requestProofSignerAccessibleToUsers requestProofCanBeMintedByRuntimeSigner ' +
  'requestProofCanBeMintedByGrantSigner requestProofCanBeMintedByPolicyDecisionSigner ' +
  'runtimeSignerAccessibleToAgent runtimeSignerAccessibleToUsers runtimeAcceptsInteractiveRequests ' +
  'runtimeCanBeInvokedByUsersForPosting triggerSignerAccessibleToAgent triggerSignerAccessibleToUsers ' +
  'triggerAcceptsHumanInitiatedEvents triggerCanBeMintedByRuntimeSigner originProofSignerAccessibleToAgent ' +
  'originProofSignerAccessibleToUsers originProofAcceptsManualEvents originProofCanBeMintedByTriggerSigner ' +
  'originProofCanBeMintedByRuntimeSigner policyDecisionSignerAccessibleToAgent ' +
  'policyDecisionSignerAccessibleToUsers policyDecisionAcceptsHumanInitiatedRequests ' +
  'policyDecisionCanBeMintedByRuntimeSigner policyDecisionCanBeMintedByTriggerSigner ' +
  'policyDecisionCanBeMintedByGrantSigner';

// Members that must be true.
const RECEIPT_SET = 'requireEventId requireOriginProof requireVerifiedOriginProof';
const ORIGIN_SET = 'requireEventId requireEvidenceId';
const SIGNER_SET = 'denyAgentAccessible denyUserAccessible requireSubjectPublicKeyHash';
const SESSION_SET = 'requireChallengeId requireBindingHash requireNoHumanPrompt requireNoHumanOperator ' +
  'denyUserShellAccess denyUserAccessibleAgentEnvironment';
const REQUEST_SET = 'requireBindingHash requireCapabilityId';

const proofPolicy: Shape = { ...custody, maxProofAgeMs: 'i' };
const shape: Shape = {
  ...all('s', 'version deploymentId'), ...all('i', 'maxChallengeAgeMs capabilityTtlMs maxCapabilityAgeMs'),
  runtimePolicy: {
    ...allowed, ...all('l', 'allowedKeyCustody? allowedRuntimeIds? allowedTriggerKinds? deniedTriggerKinds? ' +
      'alsoEnvironmentHashes?'), 'requireNonExportableKey?': 'b', maxAttestationAgeMs: 'i',
    ...all('s', 'requiredMode? requiredPolicyHash requiredEnvironmentHash'),
    triggerReceiptPolicy: {
      ...allowed, ...all('l', 'allowedKinds allowedSources'), ...all('b', RECEIPT_SET), maxReceiptAgeMs: 'i',
      ...all('s', 'requiredPayloadHash? requiredBindingHash?'),
      originProofPolicy: {
        ...allowed, ...all('l', 'allowedKinds allowedSources allowedVerificationMethods'), ...all('b', ORIGIN_SET),
        ...all('s', 'requiredPayloadHash? requiredBindingHash? requiredEvidenceHash?'), maxProofAgeMs: 'i',
      },
    },
  },
  signerCertificatePolicy: {
    ...custody, ...all('b', `${SIGNER_SET} requirePostQuantumSignature?`),
    ...all('i', 'maxRevocationListAgeMs? maxCertificateAgeMs'),
  },
  deploymentCertificatePolicy: {
    ...allowed, allowedDeploymentIds: 'l', 'requirePostQuantumSignature?': 'b', maxCertificateAgeMs: 'i',
  },
  agentSessionReceiptPolicy: {
    ...custody, ...all('l', 'allowedRuntimeIds allowedInputKinds deniedInputKinds'), ...all('b', SESSION_SET),
    ...all('s', 'requiredPolicyHash requiredEnvironmentHash'), maxReceiptAgeMs: 'i',
  },
  policyDecisionPolicy: proofPolicy,
  grantPolicy: proofPolicy,
  requestProofPolicy: { ...proofPolicy, ...all('b', REQUEST_SET) },
  'interactionReceiptPolicy?': { ...custody, maxReceiptAgeMs: 'i' },
  'autonomyPolicy?': {
    ...custody, maxReputationAgeMs: 'i', scoringHash: 's', ...all('b', 'requireVerification? allowDegraded?'),
  },
  'agentStatementPolicy?': { ...custody, maxStatementAgeMs: 'i' },
  'webBotAuthPolicy?': { ...custody, maxDirectoryAgeMs: 'i' },
  'egressCeiling?': [{ url: 's', 'methods?': 'l' }],
  controls: all('b', `${REQUIRED} ${DENIED}`),
};

/** A manifest without missing safeguards, as demands on each artifact. */
export interface Strict {
  deploymentId: string;
  manifestHash: string;
  controlsHash: string;
  signers: SignerPolicy;
  deployment: Expected & { ids: string[] };
  runtime: Expected & { ids: string[]; kinds: string[]; policyHash: string; environments: string[] };
  receipt: Expected & { kinds: string[]; sources: string[]; payloadHash?: string; bindingHash?: string };
  origin: Expected & {
    kinds: string[]; sources: string[]; methods: string[]; payloadHash?: string; bindingHash?: string;
    evidenceHash?: string;
  };
  session: Expected & { ids: string[]; inputKinds: string[]; denied: string[]; policyHash: string };
  decision: Expected;
  grant: Expected;
  requestProof: Expected;
  /** Of interaction receipts; empty, it refuses all. */
  interaction: Expected;
  /** Of reputation tokens; empty, it refuses all. */
  autonomy: Expected & { scoringHash: string; requireVerification: boolean; allowDegraded: boolean };
  /** Of agents' statements; empty, it refuses all. */
  statement: Expected;
  /** Seconds. */
  maxChallengeAge: number;
  capabilityTtl: number;
  maxCapabilityAge: number;
}

/** Reads a manifest in JSON (config_malformed) and refuses one that lacks a safeguard (deployment_unsafe). */
export async function parseManifest(text: string): Promise<Strict> {
  let m: Claims;
  try {
    refuseIf(text.length > MAX_MANIFEST, 'config_malformed', 'too large');
    m = strictJSON(text, { whole: true }) as Claims;
    refuseIf(!fits(shape, m as never, true), 'config_malformed',
      'a member is unknown, missing, empty or of another type');
  } catch (error) {
    throw error instanceof Refusal ? new Refusal('config_malformed',
      `the manifest is malformed: ${error.message}`) : error;
  }
  const lacks = audit(m);
  if (lacks) refuse('deployment_unsafe', `the manifest lacks a safeguard: ${lacks}`);
  return strictOf(m);
}

type Role = [path: string, policy: Claims, age: string, mostSeconds: number, ofKeys: boolean];

function rolesOf(m: Claims): Role[] {
  const runtime = m.runtimePolicy;
  const receipt = runtime.triggerReceiptPolicy;
  const [minute, week, long] = [60, 7 * 86400, 400 * 86400];
  const roles: Role[] = [
    ['runtimePolicy', runtime, 'maxAttestationAgeMs', minute, false],
    ['triggerReceiptPolicy', receipt, 'maxReceiptAgeMs', minute, false],
    ['originProofPolicy', receipt.originProofPolicy, 'maxProofAgeMs', minute, false],
    ['signerCertificatePolicy', m.signerCertificatePolicy, 'maxCertificateAgeMs', long, true],
    ['deploymentCertificatePolicy', m.deploymentCertificatePolicy, 'maxCertificateAgeMs', week, false],
    ['agentSessionReceiptPolicy', m.agentSessionReceiptPolicy, 'maxReceiptAgeMs', minute, true],
    ['policyDecisionPolicy', m.policyDecisionPolicy, 'maxProofAgeMs', minute, true],
    ['grantPolicy', m.grantPolicy, 'maxProofAgeMs', minute, true],
    ['requestProofPolicy', m.requestProofPolicy, 'maxProofAgeMs', minute, true],
    ['interactionReceiptPolicy', m.interactionReceiptPolicy, 'maxReceiptAgeMs', minute, true],
    ['autonomyPolicy', m.autonomyPolicy, 'maxReputationAgeMs', 600, true],
    ['agentStatementPolicy', m.agentStatementPolicy, 'maxStatementAgeMs', minute, true],
    ['webBotAuthPolicy', m.webBotAuthPolicy, 'maxDirectoryAgeMs', 120, true],
  ];
  return roles.filter(([, policy]) => policy);
}

const unsaid = (list: string[] | null | undefined) => !list?.length || list.includes('');
const beyond = (list: string[] | null | undefined, most: string[]) => (list ?? []).some((v) => v !== '' &&
  !most.includes(v));
const between = (ms: number, most: number) => ms >= 1000 && ms <= most * 1000;
const set = (policy: Claims, names: string) => names.split(' ').find((name) => policy[name] !== true);
const odd = (list: string[] | null | undefined) => (list ?? []).some((entry) => {
  const prefix = entry.replace(/\/\*$/, '');
  return (prefix === '' && entry !== '') || prefix.includes('*');
});

/** The path of a safeguard that is missing, if any is. */
function audit(m: Claims): string | undefined {
  const { runtimePolicy: runtime, agentSessionReceiptPolicy: session, deploymentCertificatePolicy: deployment } = m;
  const receipt = runtime.triggerReceiptPolicy;
  const origin = receipt.originProofPolicy;
  if (!['1.0', '1.1'].includes(m.version)) return 'version';
  if (m.version === '1.0' && (m.autonomyPolicy || m.agentStatementPolicy || m.webBotAuthPolicy)) {
    return 'version';
  }
  if (m.deploymentId === '' || !deployment.allowedDeploymentIds?.includes(m.deploymentId)) return 'deploymentId';
  const roles = rolesOf(m);
  for (const [path, p, age, most, ofKeys] of roles) {
    if (unsaid(p.allowedIssuers) || unsaid(p.allowedAudiences) || unsaid(p.allowedKeyIds)) return path;
    if (odd(p.allowedKeyIds) || p.allowedKeyIds.some((kid: string) =>
      kid.startsWith('mac:'))) return `${path}.allowedKeyIds`;
    if (!between(p[age], most)) return `${path}.${age}`;
    const weak = unsaid(p.allowedKeyCustody) || beyond(p.allowedKeyCustody, CUSTODY);
    if ((ofKeys || (path === 'runtimePolicy' && p.allowedKeyCustody)) && weak) return `${path}.allowedKeyCustody`;
    if (ofKeys && !p.requireNonExportableKey) return `${path}.requireNonExportableKey`;
  }
  if (unsaid(receipt.allowedKinds) || beyond(receipt.allowedKinds, KINDS) || unsaid(receipt.allowedSources) ||
    unsaid(origin.allowedKinds) || beyond(origin.allowedKinds, KINDS) || unsaid(origin.allowedSources) ||
    unsaid(origin.allowedVerificationMethods) || beyond(origin.allowedVerificationMethods, METHODS)) {
    return 'runtimePolicy.triggerReceiptPolicy';
  }
  if (unsaid(deployment.allowedDeploymentIds)) return 'deploymentCertificatePolicy.allowedDeploymentIds';
  if (unsaid(session.allowedRuntimeIds) || odd(session.allowedRuntimeIds) || unsaid(session.allowedInputKinds) ||
    beyond(session.allowedInputKinds, KINDS)) return 'agentSessionReceiptPolicy';
  const open = set(receipt, RECEIPT_SET) ?? set(origin, ORIGIN_SET) ?? set(m.signerCertificatePolicy, SIGNER_SET) ??
    set(session, SESSION_SET) ?? set(m.requestProofPolicy, REQUEST_SET) ?? set(m.controls, REQUIRED) ??
    DENIED.split(' ').find((name) => m.controls[name]);
  if (open) return open;
  const { allowedTriggerKinds: kinds, deniedTriggerKinds: denied } = runtime;
  if (odd(runtime.allowedRuntimeIds) || (runtime.requiredMode ?? 'autonomous') !== 'autonomous' || beyond(kinds,
    KINDS) ||
    kinds?.includes('') || (denied && !['human_request', 'unknown'].every((kind) => denied.includes(kind))) ||
    triggerKinds(runtime).length === 0) return 'runtimePolicy';
  if (!['human_prompt', 'manual_shell', 'unknown'].every((kind) => session.deniedInputKinds?.includes(kind))) {
    return 'agentSessionReceiptPolicy.deniedInputKinds';
  }
  const also: string[] = runtime.alsoEnvironmentHashes ?? [];
  const optional = [receipt.requiredPayloadHash, receipt.requiredBindingHash, origin.requiredPayloadHash,
    origin.requiredBindingHash, origin.requiredEvidenceHash, m.autonomyPolicy?.scoringHash];
  if (!isHash(runtime.requiredPolicyHash) || !isHash(runtime.requiredEnvironmentHash) || also.length > 8 ||
    [...also, ...optional.filter((h) => h !== undefined)].some((h) => !isHash(h)) ||
    session.requiredPolicyHash !== runtime.requiredPolicyHash ||
    session.requiredEnvironmentHash !== runtime.requiredEnvironmentHash) return 'a hash';
  const lists = m.signerCertificatePolicy.maxRevocationListAgeMs;
  if (!between(m.maxChallengeAgeMs, 60) || !between(m.capabilityTtlMs, 60) || !between(m.maxCapabilityAgeMs, 60) ||
    (lists !== undefined && !between(lists, 7 * 86400))) return 'a bound on an age';
  return shared(roles, 'allowedIssuers', (issuer) => issuer) ?? shared(roles, 'allowedKeyIds', keyName);
}

/** A member in which two roles share a value: its holder could act as both witnesses. */
function shared(roles: Role[], member: string, of: (value: string) => string): string | undefined {
  const seen: [string, string][] = [];
  for (const [path, policy] of roles) {
    for (const value of (policy[member] as string[]).map(of)) {
      if (seen.some(([other, v]) => other !== path && (nameAmong([v], value) || nameAmong([value], v)))) {
        return `${path}.${member}`;
      }
      seen.push([path, value]);
    }
  }
  return undefined;
}

const triggerKinds = ({ allowedTriggerKinds: only = [], deniedTriggerKinds: denied = [],
  triggerReceiptPolicy }: Claims) =>
  (triggerReceiptPolicy.allowedKinds as string[]).filter((kind) =>
    (!only.length || only.includes(kind)) && !denied.includes(kind));

async function strictOf(m: Claims): Promise<Strict> {
  const { runtimePolicy: runtime, agentSessionReceiptPolicy: session, signerCertificatePolicy: signers } = m;
  const receipt = runtime.triggerReceiptPolicy;
  const origin = receipt.originProofPolicy;
  const expected = (p: Claims, age: number, more: Partial<Expected> = {}): Expected => ({
    issuers: p.allowedIssuers, audiences: p.allowedAudiences, keyIds: p.allowedKeyIds, maxAge: age / 1000,
    custody: p.allowedKeyCustody, requireNonExportable: p.requireNonExportableKey,
    requirePostQuantum: p.requirePostQuantumSignature, ...more,
  });
  const optional = (p: Claims | undefined, age: string): Expected =>
    (p ? expected(p, p[age]) : { issuers: [], audiences: [], keyIds: [], maxAge: 0 });
  const guarded = { custody: runtime.allowedKeyCustody ?? CUSTODY, requireNonExportable: true };
  const pins = (p: Claims) => ({
    kinds: p.allowedKinds, sources: p.allowedSources, payloadHash: p.requiredPayloadHash,
    bindingHash: p.requiredBindingHash,
  });
  return {
    deploymentId: m.deploymentId, manifestHash: await hash(canonical(m as never)),
    controlsHash: await hash(canonical(m.controls)),
    signers: {
      ...expected(signers, signers.maxCertificateAgeMs), denyAgentAccessible: signers.denyAgentAccessible,
      denyUserAccessible: signers.denyUserAccessible, maxRevocationAge: (signers.maxRevocationListAgeMs ?? 0) / 1000,
    },
    deployment: {
      ...expected(m.deploymentCertificatePolicy, m.deploymentCertificatePolicy.maxCertificateAgeMs),
      ids: m.deploymentCertificatePolicy.allowedDeploymentIds,
    },
    runtime: {
      ...expected(runtime, runtime.maxAttestationAgeMs, guarded), ids: runtime.allowedRuntimeIds ?? [],
      kinds: triggerKinds(runtime), policyHash: runtime.requiredPolicyHash,
      environments: [runtime.requiredEnvironmentHash, ...runtime.alsoEnvironmentHashes ?? []],
    },
    receipt: { ...expected(receipt, receipt.maxReceiptAgeMs, guarded), ...pins(receipt) },
    origin: {
      ...expected(origin, origin.maxProofAgeMs, guarded), ...pins(origin), methods: origin.allowedVerificationMethods,
      evidenceHash: origin.requiredEvidenceHash,
    },
    session: {
      ...expected(session, session.maxReceiptAgeMs), ids: session.allowedRuntimeIds,
        inputKinds: session.allowedInputKinds,
      denied: session.deniedInputKinds, policyHash: session.requiredPolicyHash,
    },
    decision: expected(m.policyDecisionPolicy, m.policyDecisionPolicy.maxProofAgeMs),
    grant: expected(m.grantPolicy, m.grantPolicy.maxProofAgeMs),
    requestProof: expected(m.requestProofPolicy, m.requestProofPolicy.maxProofAgeMs),
    interaction: optional(m.interactionReceiptPolicy, 'maxReceiptAgeMs'),
    statement: optional(m.agentStatementPolicy, 'maxStatementAgeMs'),
    autonomy: {
      ...optional(m.autonomyPolicy, 'maxReputationAgeMs'), scoringHash: m.autonomyPolicy?.scoringHash ?? '',
      requireVerification: m.autonomyPolicy?.requireVerification ?? false,
      allowDegraded: m.autonomyPolicy?.allowDegraded ?? false,
    },
    maxChallengeAge: m.maxChallengeAgeMs / 1000, capabilityTtl: m.capabilityTtlMs / 1000,
    maxCapabilityAge: m.maxCapabilityAgeMs / 1000,
  };
}
