// For an API's own tests: a deployment with keys of its own, which mints valid chains and broken ones. Nothing that
// it makes is good at a gate with other roots.
import { type Bytes, hash, newId, sha256, tokenHash, toBase64url, utf8 } from './bytes.js';
import * as a from './claims.js';
import type { Claims } from './claims.js';
import { type Files, type Gate, Secret } from './gate.js';
import { contentDigest } from './httpsig.js';
import { type Json, canonical, strictJSON } from './json.js';
import { DENIED, KINDS, REQUIRED } from './manifest.js';
import type { Task } from './task.js';

/** A change of an artifact before it is signed, by the artifact's typ, such as 'request-proof+jwt'. */
export type Changes = Record<string, (claims: Claims) => void>;

export interface Operation {
  method: string;
  /** Path and query, as the gate sees them with its publicURL. */
  url: string;
  body: string | Uint8Array;
  authorization?: string;
}

interface Signer { kid: string; issuer: string; audience: string; pair: CryptoKeyPair }

// The signers: purpose, member of the manifest, issuer, audience.
const ROLES: [purpose: string, issuer: string, audience: string][] = [
  ['trigger_origin_proof', 'source-verifier', 'trigger'], ['trigger_receipt', 'trigger', 'runtime'],
  ['policy_decision', 'policy', 'api'], ['action_grant', 'authorization', 'api'],
  ['runtime_attestation', 'runtime', 'api'],
  ['agent_session', 'session-controller', 'api'], ['request_proof', 'request-mediator', 'api'],
  ['signer_certificate', 'registry', 'api'], ['deployment_certificate', 'auditor', 'api'],
];
const AGE = 15_000;
const DAY = 86_400;

/** Makes a deployment for a gate of this name, whose routes have this subject and action. */
export class Kit {
  private constructor(readonly files: Files, private readonly signers: Map<string, Signer>,
    private readonly secret: Secret,
    private readonly deployment: string, private readonly policyHash: string,
      private readonly environmentHash: string,
    private readonly of: Required<KitOptions>) {}

  static async make(options: KitOptions): Promise<Kit> {
    const of = { now: Date.now, raw: false, ...options };
    const signers = new Map<string, Signer>();
    for (const [purpose, issuer, audience] of ROLES) {
      const pair = await crypto.subtle.generateKey('Ed25519', true, ['sign', 'verify']) as CryptoKeyPair;
      signers.set(purpose, { kid: `${issuer}-key:v1`, issuer, audience, pair });
    }
    const [policyHash, environmentHash] = [await hash('policy'), await hash('environment')];
    const manifest = manifestOf(signers, policyHash, environmentHash);
    const at = Math.floor(of.now() / 1000);
    const certificates: string[] = [];
    for (const [purpose] of ROLES.slice(0, 7)) {
      const { kid, issuer, pair } = signers.get(purpose)!;
      const x = await rawOf(pair);
      certificates.push(await sign(signers.get('signer_certificate')!, a.signerCertificate.typ,
        registered('registry', 'api', at, 30 * DAY, {
        accessibleToAgent: false, accessibleToUsers: false, keyCustody: 'external_mediator', keyExportable: false,
        purposes: [purpose], subjectIssuer: issuer, subjectKeyId: kid, subjectPublicKey: toBase64url(x),
        subjectPublicKeyHash: await hash(x),
      })));
    }
    const deployment = await sign(signers.get('deployment_certificate')!, a.deploymentCertificate.typ,
      registered('auditor', 'api', at, DAY, {
        controlsHash: await hash(canonical(manifest.controls)), deploymentId: 'kit',
        manifestHash: await hash(canonical(manifest as Json)), version: '1.0',
      }));
    const jwk = async (purpose: string) => {
      const { kid, pair } = signers.get(purpose)!;
      return JSON.stringify({ kty: 'OKP', crv: 'Ed25519', kid, x: toBase64url(await rawOf(pair)) });
    };
    const secret = newId() + newId();
    const files: Files = {
      registry: await jwk('signer_certificate'), auditor: await jwk('deployment_certificate'),
      manifest: canonical(manifest as Json), secret,
      bundle: JSON.stringify({ certificates, deploymentCertificate: deployment }),
    };
    return new Kit(files, signers, await Secret.of(secret), deployment, policyHash, environmentHash, of);
  }

  /** The headers of a post, as the mediator would send it. changes make it a broken one. */
  async headers(o: Operation, changes: Changes = {}): Promise<Record<string, string>> {
    const authorization = o.authorization ?? '';
    const binding = { ...await this.binding(o), nonce: newId() };
    const at = Math.floor(this.of.now() / 1000);
    const capability = registered(this.of.name, this.of.name, at, 15, {
      binding, challengeId: newId(), decisionId: newId(), grantId: newId(), runtime: {
        attestationId: newId(), environmentHash: this.environmentHash, issuedAt: at, issuer: 'runtime',
          keyId: 'runtime-key:v1',
        policyHash: this.policyHash, runtimeId: 'worker-1',
        trigger: { id: 'evt_1', kind: 'source_event', source: 'hooks' },
      }, session: {
        agentEnvironmentUserAccessible: false, humanOperatorPresent: false, humanPromptPresent: false,
          inputKind: 'source_event',
        receiptId: newId(), sessionId: 'ses_1', userShellAccess: false,
      }, verificationConsumed: true,
    });
    changes[a.capability.typ]?.(capability);
    const proof = await this.artifact('request_proof', a.requestProof, changes, {
      accessTokenHash: await hash(authorization), action: binding.action, bindingHash: await a.bindingHash(binding),
      capabilityId: capability.jti, contentHash: binding.contentHash, resource: binding.resource,
        subject: binding.subject,
    });
    return {
      ...(!this.of.raw && { 'content-type': 'application/json' }), ...(authorization && { authorization }),
      'content-digest': contentDigest(await sha256(bytesOf(o.body))), 'idempotency-key': capability.jti,
      'actionproof-capability': await this.secret.sign(a.capability, capability), 'actionproof-request-proof': proof,
    };
  }

  async binding({ method, url, body }: Operation): Promise<a.Binding> {
    const content = bytesOf(body);
    const contentHash = await hash(this.of.raw ? content : canonical(strictJSON(content)));
    return { action: this.of.action, contentHash, resource: `${method} ${url}`, subject: this.of.subject };
  }

  /** The body of a request to the gate's verify endpoint: a whole chain for a challenge of the gate. */
  async chain(gate: Gate, o: Operation, changes: Changes = {}): Promise<string> {
    const asked = await this.binding(o);
    const { binding: b, id, tasks, token } = await gate.challenge(JSON.stringify(asked));
    const answers: Record<string, string> = {};
    for (const t of tasks as Task[]) answers[t.id] = await hash(run(t.input));
    const bindingHash = await a.bindingHash(b);
    const event = { eventId: 'evt_1', kind: 'source_event', source: 'hooks' };
    const payloadHash = await hash('payload');
    const evidence = { id: newId(), hash: await hash('evidence'), method: 'webhook_signature' };
    const made = (purpose: string, kind: a.Kind, claims: Claims) => this.artifact(purpose, kind, changes, claims);
    const pins = { policyHash: this.policyHash, environmentHash: this.environmentHash };
    const originProof = await made('trigger_origin_proof', a.originProof, {
      ...event, bindingHash, payloadHash, evidenceHash: evidence.hash, evidenceId: evidence.id,
        verificationMethod: evidence.method,
    });
    const triggerReceipt = await made('trigger_receipt', a.triggerReceipt, {
      ...event, bindingHash, payloadHash, humanInitiated: false, originProofHash: await tokenHash(originProof),
    });
    const decisionId = newId();
    const policyDecision = await made('policy_decision', a.policyDecision, {
      ...pins, ...asked, jti: decisionId, bindingHash, challengeId: id, decision: 'allow', humanInitiated: false,
        rule: 'kit',
      runtimeId: 'worker-1', originEvidenceHash: evidence.hash, originEvidenceId: evidence.id,
      originVerificationMethod: evidence.method, triggerEventId: event.eventId, triggerKind: event.kind,
        triggerSource: event.source,
    });
    const grant = await made('action_grant', a.actionGrant, {
      ...pins, actions: [b.action], bindingHashes: [bindingHash], contentHashes: [b.contentHash],
      originEvidenceHashes: [evidence.hash], originEvidenceIds: [evidence.id],
        originVerificationMethods: [evidence.method],
      policyDecisionHashes: [await tokenHash(policyDecision)], policyDecisionIds: [decisionId],
        resources: [b.resource],
      runtimeIds: ['worker-1'], subject: b.subject, triggerEventIds: [event.eventId], triggerSources: [event.source],
    });
    const attestation = await made('runtime_attestation', a.runtimeAttestation, {
      ...pins, bindingHash, challengeId: id, contentHash: b.contentHash, humanInteractive: false, mode: 'autonomous',
      runtimeId: 'worker-1', trigger: { id: event.eventId, kind: event.kind, source: event.source },
      triggerReceiptHash: await tokenHash(triggerReceipt),
    });
    const sessionReceipt = await made('agent_session', a.sessionReceipt, {
      ...pins, agentEnvironmentUserAccessible: false, bindingHash, challengeId: id, eventId: event.eventId,
      humanOperatorPresent: false, humanPromptPresent: false, inputKind: event.kind, inputSource: event.source,
      runtimeId: 'worker-1', sessionId: 'ses_1', transcriptHash: await hash(''), userShellAccess: false,
    });
    return JSON.stringify({ binding: asked, envelope: {
      challengeToken: token, response: { challengeId: id, answers }, originProof, triggerReceipt, policyDecision,
        grant,
      attestation, sessionReceipt, deploymentCertificate: this.deployment,
    } });
  }

  private async artifact(purpose: string, kind: a.Kind, changes: Changes, claims: Claims): Promise<string> {
    const s = this.signers.get(purpose)!;
    const custody = 'keyCustody' in kind.claims ? { keyCustody: 'external_mediator', keyExportable: false } : {};
    const c = registered(s.issuer, s.audience, Math.floor(this.of.now() / 1000), 60, { ...custody, ...claims });
    changes[kind.typ]?.(c);
    return sign(s, kind.typ, c);
  }
}

export interface KitOptions {
  name: string;
  subject: string;
  action: string;
  raw?: boolean;
  /** Unix milliseconds. */
  now?: () => number;
}

const bytesOf = (body: string | Uint8Array): Uint8Array => (typeof body === 'string' ? utf8(body) : body);

const registered = (iss: string, aud: string, iat: number, lifetime: number, claims: Claims): Claims =>
  ({ jti: newId(), ...claims, iss, aud, iat, exp: iat + lifetime });

const rawOf = async (pair: CryptoKeyPair): Promise<Bytes> =>
  new Uint8Array(await crypto.subtle.exportKey('raw', pair.publicKey));

async function sign({ kid, pair }: Signer, typ: string, claims: Claims): Promise<string> {
  const input = [{ alg: 'EdDSA', kid, typ }, claims].map((part) =>
    toBase64url(utf8(canonical(part as Json)))).join('.');
  return `${input}.${toBase64url(new Uint8Array(await crypto.subtle.sign('Ed25519', pair.privateKey, utf8(input))))}`;
}

function manifestOf(signers: Map<string, Signer>, policyHash: string, environmentHash: string) {
  const by = (purpose: string) => {
    const { kid, issuer, audience } = signers.get(purpose)!;
    return { allowedIssuers: [issuer], allowedAudiences: [audience], allowedKeyIds: [kid.replace(/:v1$/, '')] };
  };
  const keys = { allowedKeyCustody: ['external_mediator', 'hardware_backed'], requireNonExportableKey: true };
  const from = { allowedKinds: KINDS, allowedSources: ['hooks'], requireEventId: true };
  const required = { requiredPolicyHash: policyHash, requiredEnvironmentHash: environmentHash };
  const flags = (names: string, value: boolean) => Object.fromEntries(names.split(' ').map((name) => [name, value]));
  return {
    version: '1.0', deploymentId: 'kit', maxChallengeAgeMs: AGE, capabilityTtlMs: AGE, maxCapabilityAgeMs: AGE,
    runtimePolicy: {
      ...by('runtime_attestation'), ...required, maxAttestationAgeMs: AGE, triggerReceiptPolicy: {
        ...by('trigger_receipt'), ...from, maxReceiptAgeMs: AGE, requireOriginProof: true,
          requireVerifiedOriginProof: true,
        originProofPolicy: {
          ...by('trigger_origin_proof'), ...from, allowedVerificationMethods: ['webhook_signature'],
            requireEvidenceId: true,
          maxProofAgeMs: AGE,
        },
      },
    },
    signerCertificatePolicy: {
      ...by('signer_certificate'), ...keys, denyAgentAccessible: true, denyUserAccessible: true,
      requireSubjectPublicKeyHash: true, maxCertificateAgeMs: 30 * DAY * 1000,
    },
    deploymentCertificatePolicy: {
      ...by('deployment_certificate'), allowedDeploymentIds: ['kit'], maxCertificateAgeMs: DAY * 1000,
    },
    agentSessionReceiptPolicy: {
      ...by('agent_session'), ...keys, ...required, allowedRuntimeIds: ['worker-1'], allowedInputKinds: KINDS,
      deniedInputKinds: ['human_prompt', 'manual_shell', 'unknown'], requireChallengeId: true,
        requireBindingHash: true,
      requireNoHumanPrompt: true, requireNoHumanOperator: true, denyUserShellAccess: true,
      denyUserAccessibleAgentEnvironment: true, maxReceiptAgeMs: AGE,
    },
    policyDecisionPolicy: { ...by('policy_decision'), ...keys, maxProofAgeMs: AGE },
    grantPolicy: { ...by('action_grant'), ...keys, maxProofAgeMs: AGE },
    requestProofPolicy: {
      ...by('request_proof'), ...keys, maxProofAgeMs: AGE, requireBindingHash: true, requireCapabilityId: true,
    },
    controls: { ...flags(REQUIRED, true), ...flags(DENIED, false) },
  };
}

/** Runs a task of kind vm: only the lines that makeTask draws. */
function run({ modulus, program, registers }: Task['input']): string {
  const values = [...registers];
  for (const line of program) {
    const [op, x, y] = line.split(' ') as [string, string, string];
    const [i, left, right] = ['abcd'.indexOf(x), values['abcd'.indexOf(x)]!, values['abcd'.indexOf(y)]!];
    values[i] = (op === 'add' ? left + right : op === 'sub' ? left - right + modulus : left * right) % modulus;
  }
  return values.join(',');
}
