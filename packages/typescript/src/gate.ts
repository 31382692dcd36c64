// An API's gate: challenges, capabilities, and the verdict on each request.
import { type Bytes, hash, hmac, newId, sameSecret, toBase64url, utf8 } from './bytes.js';
import * as a from './claims.js';
import type { Claims } from './claims.js';
import { attended, emptyEnvelope, same, sameAction, verifyChain, type Envelope } from './chain.js';
import { canonical, document } from './json.js';
import { type Strict, parseManifest } from './manifest.js';
import { Refusal, codeOf, refuse, refuseIf } from './refusal.js';
import { CAPABILITY, HeaderList, type HeadersLike, REQUEST_PROOF, checkJSON, checkOverrides, contentHash, escapedPath,
  headerBytes, targetOf } from './request.js';
import { type Key, type Store } from './stores.js';
import { makeTask } from './task.js';
import { NewerKey, Trust, admits, keyAmong, nameAmong, parseRoot } from './trust.js';

const SKEW = 2;
const MAX_BUNDLE = 8 * 1024 * 1024;
const MAX_REQUEST = 256 * 1024;
const CHALLENGE_LIFETIME = 30;
const emptyBundle = {
  certificates: [''], deploymentCertificate: '', history: { segment: 0, texts: 0 }, revocations: '',
};
const emptyBinding = { action: '', contentHash: '', nonce: '', resource: '', subject: '' };

/** The texts of the files that an API trusts. docs/api-owners.md says where they come from. */
export interface Files {
  registry: string;
  auditor: string;
  manifest: string;
  bundle: string;
  secret: string | Uint8Array;
}

export interface GateOptions {
  /** Issuer and audience of the API's challenges and capabilities. */
  name: string;
  store: Store;
  /** Unix milliseconds. */
  now?: () => number;
  /** Milliseconds since the last successful reload after which all is unavailable; 10 minutes. */
  maxStale?: number;
}

/** How to read the requests of one route. */
export interface Route {
  subject: string;
  action: string;
  /** Hash the body's bytes; otherwise the canonical form of its JSON. */
  raw?: boolean;
  /** Where the mediator reaches this server, if a reverse proxy changes scheme, host or the path's beginning. */
  publicURL?: string;
}

export interface Request {
  method: string;
  url: string;
  headers: HeadersLike;
  /** The body as it came: of a parsed body, the hash cannot be known. */
  rawBody: Uint8Array;
}

/** What is known of a verified post. */
export interface Post {
  subject: string;
  action: string;
  resource: string;
  contentHash: string;
  capabilityId: string;
  sessionId: string;
  runtimeId: string;
  trigger: { id: string; kind: string; source: string };
}

export type Status = 'verified' | 'refused' | 'absent' | 'unavailable';

/** refused: the evidence is bad. absent: there is none. unavailable: it could not be judged. */
export interface Verdict {
  status: Status;
  /** ok, or a code of docs/errors.md. */
  code: string;
  /** For your log alone. */
  detail: string;
  post?: Post;
  /**
   * Uses the evidence up, in the given store or the gate's. Only a verdict that is still verified permits the post.
   */
  consume(store?: Store): Promise<Verdict>;
}

const UNAVAILABLE = ['internal', 'trust_stale'];

function failed(error: unknown, absent = false): Verdict {
  const code = codeOf(error);
  const v: Verdict = {
    code,
    status: UNAVAILABLE.includes(code) ? 'unavailable' : absent && code === 'proof_missing' ? 'absent' : 'refused',
    detail: error instanceof Error ? error.message : String(error), consume: () => Promise.resolve(v),
  };
  return v;
}

/** The gate's own secret, by which its tokens are authenticated. */
export class Secret {
  private constructor(private readonly bytes: Bytes, readonly id: string) {}

  static async of(text: string | Uint8Array): Promise<Secret> {
    const bytes = typeof text === 'string' ? utf8(text.replace(/\r?\n$/, '')) : new Uint8Array(text);
    refuseIf(bytes.length < 32, 'config_malformed', 'the secret has fewer than 32 bytes');
    return new Secret(bytes, `mac:${toBase64url((await hmac(bytes, utf8('kid'))).subarray(0, 9))}`);
  }

  async mac(input: string): Promise<string> {
    return toBase64url(await hmac(this.bytes, utf8(input)));
  }

  async sign(kind: a.Kind, claims: Claims): Promise<string> {
    const header = canonical({ alg: 'HS256', kid: this.id, typ: kind.typ });
    const input = `${toBase64url(utf8(header))}.${toBase64url(utf8(canonical(claims as never)))}`;
    return `${input}.${await this.mac(input)}`;
  }
}

/** A challenge as an API gives it out. */
export interface Challenge {
  id: string;
  difficulty: string;
  instructions: string;
  binding: a.Binding;
  tasks: unknown[];
  token: string;
  /** Unix seconds. */
  expiresAt: number;
}

/** The gate of one API. Its methods that return a verdict never throw. */
export class Gate {
  private fresh = 0;

  private constructor(private readonly secret: Secret, private readonly options: GateOptions,
    private readonly pinned: Files,
    private strict: Strict, private trust: Trust) {}

  /** Reads the files. It throws a Refusal for a weak manifest, and for a bundle without a root's signature. */
  static async open(files: Files, options: GateOptions): Promise<Gate> {
    const strict = await parseManifest(files.manifest);
    const trust = await trustOf(files, strict);
    const g = new Gate(await Secret.of(files.secret), options, files, strict, trust);
    g.fresh = g.millis();
    return g;
  }

  /**
   * Replaces manifest and bundle. After a Refusal the former stay, for at most maxStale; but a new bundle counts even
   * if the new manifest is refused, so that revocations count at once.
   */
  async reload(changed: Pick<Files, 'manifest' | 'bundle'>): Promise<void> {
    const at = this.millis();
    let refused: unknown;
    const strict = await parseManifest(changed.manifest).catch((error: unknown) => {
      refused = error;
      return this.strict;
    });
    const trust = await trustOf({ ...this.pinned, bundle: changed.bundle }, strict);
    trust.succeeds(this.trust);
    [this.strict, this.trust] = [strict, trust];
    if (refused !== undefined) throw refused;
    this.fresh = at;
  }

  private millis(): number {
    return (this.options.now ?? Date.now)();
  }

  private clock() {
    const age = this.millis() - this.fresh;
    const most = this.options.maxStale ?? 600_000;
    refuseIf(age > most && this.options.maxStale !== Infinity, 'trust_stale',
      'the trust was not read again for too long');
    return { now: this.millis() / 1000, skew: SKEW };
  }

  private async own(kind: a.Kind, token: string, maxAge: number): Promise<Claims> {
    const p = a.parse(token, 'HS256', kind.typ, kind.size);
    refuseIf(!sameSecret(toBase64url(p.signature), await this.secret.mac(p.input)), 'signature_invalid',
      `the ${kind.typ} was not issued by this verifier, or was altered`);
    const claims = await a.decode(kind, p.payload);
    const { name } = this.options;
    admits({ issuers: [name], audiences: [name], keyIds: [this.secret.id], maxAge }, kind.typ, p.kid, claims, {},
      this.clock());
    return claims;
  }

  private open: Parameters<typeof verifyChain>[0]['open'] = async (kind, token, want) => {
    try {
      return await this.trust.open(kind, token, want, this.clock());
    } catch (error) {
      throw error instanceof NewerKey ? new Refusal('trust_stale', error.message) : error;
    }
  };

  /** Gives out a challenge for a binding (JSON of a request to the challenge endpoint). Throws a Refusal. */
  async challenge(request: string | Uint8Array): Promise<Challenge> {
    const { nonce: _, ...asked } = document(request, emptyBinding, MAX_REQUEST, 'query_malformed');
    a.checkBinding(asked);
    const binding = { ...asked, nonce: newId() };
    const { now } = this.clock();
    const [id, iat] = [newId(), Math.floor(now)];
    const { task, answer } = makeTask();
    const salt = newId();
    const claims = {
      answers: [{ hash: await hash([salt, id, task.id, await hash(answer)].join('\0')), id: task.id, kind: task.kind,
        salt }],
      aud: this.options.name, binding, bindingHash: await a.bindingHash(binding), difficulty: 'standard',
      exp: iat + CHALLENGE_LIFETIME, iat, iss: this.options.name, jti: id,
        tasksHash: await hash(canonical([task] as never)),
    };
    return {
      id, difficulty: 'standard', binding, tasks: [task], expiresAt: claims.exp,
      instructions: 'Solve every task as its own instructions say. Respond with the id of this challenge and one ' +
        'answer for each task.',
      token: await this.secret.sign(a.challengeToken, claims),
    };
  }

  /** Verifies a whole chain (JSON of a request to the verify endpoint), uses it up, and mints a capability. */
  async admit(request: string | Uint8Array): Promise<Verdict & { answer?: Record<string, unknown> }> {
    try {
      const form = { assurance: false, binding: emptyBinding, envelope: emptyEnvelope };
      const asked = document(request, form as never, MAX_REQUEST,
        'query_malformed') as typeof form & { envelope: Envelope };
      const { nonce: _, ...binding } = asked.binding;
      const c = await verifyChain({ strict: this.strict, open: this.open, own: (...of) => this.own(...of) },
        asked.envelope, binding);
      const iat = Math.floor(this.clock().now);
      const claims = {
        aud: this.options.name, binding: c.work.binding, challengeId: c.work.jti, decisionId: c.decision.jti,
        exp: Math.floor(this.clock().now + this.strict.capabilityTtl), grantId: c.grant.jti, iat,
          iss: this.options.name,
        jti: newId(), runtime: {
          attestationId: c.attestation.jti, environmentHash: c.attestation.environmentHash,
            issuedAt: c.attestation.iat,
          issuer: c.attestation.iss, keyId: c.attestedBy, policyHash: c.attestation.policyHash,
          runtimeId: c.attestation.runtimeId, trigger: c.attestation.trigger,
        }, session: {
          agentEnvironmentUserAccessible: c.session.agentEnvironmentUserAccessible,
          humanOperatorPresent: c.session.humanOperatorPresent, humanPromptPresent: c.session.humanPromptPresent,
          inputKind: c.session.inputKind, receiptId: c.session.jti, sessionId: c.session.sessionId,
          userShellAccess: c.session.userShellAccess,
        }, verificationConsumed: true,
      };
      const used = await this.verified(postOf(claims), [
        keyOf('challenge', c.work), keyOf('origin_proof', c.origin), keyOf('trigger_receipt', c.receipt),
        keyOf('policy_decision', c.decision), keyOf('action_grant', c.grant),
        keyOf('runtime_attestation', c.attestation),
        keyOf('session_receipt', c.session),
      ]).consume();
      if (used.status !== 'verified') return used;
      return { ...used, answer: {
        capability: await this.secret.sign(a.capability, claims), capabilityId: claims.jti,
          bindingHash: c.work.bindingHash,
        expiresAt: claims.exp,
      } };
    } catch (error) {
      return failed(error);
    }
  }

  /**
   * Judges a request to a protected route. It uses nothing up: call consume before, or in the transaction of, the
   * post.
   */
  async verify(request: Request, route: Route): Promise<Verdict> {
    let absent = false;
    try {
      const headers = new HeaderList(request.headers);
      absent = headers.all(CAPABILITY).length + headers.all(REQUEST_PROOF).length === 0;
      const { path, query } = targetOf(request.url);
      checkOverrides(request.method, query ?? '', headers);
      const [token, proof] = [headers.once(CAPABILITY), headers.once(REQUEST_PROOF)];
      absent = false;
      refuseIf(headers.all('authorization').length > 1, 'proof_access_token',
        'the request has two Authorization headers');
      if (!route.raw) checkJSON(headers);
      refuseIf(headers.all('trailer').length > 0, 'request_malformed',
        'the request has trailers, which no hash covers');
      const before = route.publicURL ? targetOf(route.publicURL).path.replace(/\/$/, '') : '';
      const binding = {
        subject: route.subject, action: route.action,
        resource: `${request.method} ${before}${escapedPath(path)}${query === undefined ? '' : `?${query}`}`,
        contentHash: await contentHash(request.rawBody, route.raw ?? false),
      };
      return await this.authorize(token, proof, await hash(headerBytes(headers.get('authorization'))), binding);
    } catch (error) {
      return failed(error, absent);
    }
  }

  /** Verifies a capability and the request proof over it against a binding. Throws a Refusal. */
  async authorize(token: string, proof: string, accessTokenHash: string, asked: a.Binding): Promise<Verdict> {
    a.checkBinding(asked);
    const c = await this.own(a.capability, token, this.strict.maxCapabilityAge);
    const { resource } = c.binding;
    refuseIf(resource !== asked.resource, 'artifacts_mismatch', `the capability is for ${resource}, not ${
      asked.resource}; if a proxy changes the path, set publicURL`);
    refuseIf(!sameAction(c.binding, asked), 'artifacts_mismatch', 'the capability is for another operation');
    refuseIf(!c.verificationConsumed || !c.runtime || !c.session || !c.decisionId || !c.grantId, 'artifact_missing',
      'the capability lacks a part of the chain');
    refuseIf(attended(c.session), 'human_involved', 'a human could take part in the session behind the capability');
    this.checkRuntime(c.runtime);
    this.trust.notRevoked('evidence of the capability', c.runtime.keyId,
      [c.jti, c.decisionId, c.grantId, c.runtime.attestationId, c.session.receiptId], this.clock());
    const { claims: p } = await this.open(a.requestProof, proof, this.strict.requestProof);
    refuseIf(!sameSecret(p.accessTokenHash, accessTokenHash), 'proof_access_token',
      'the request proof is not for the access token that came with the request');
    const b = c.binding;
    same('artifacts_mismatch', 'request proof', [p.capabilityId, c.jti], [p.bindingHash, await a.bindingHash(b)],
      [p.contentHash, b.contentHash], [p.subject, b.subject], [p.action, b.action], [p.resource, b.resource]);
    return this.verified(postOf(c),
      [{ kind: 'capability', id: c.jti, expires: c.exp + SKEW }, keyOf('request_proof', p)]);
  }

  private checkRuntime(r: Claims): void {
    const { runtime: s, session, receipt } = this.strict;
    refuseIf(!s.issuers.includes(r.issuer) || !keyAmong(s.keyIds, r.keyId) ||
      !nameAmong(s.ids.length ? s.ids : session.ids, r.runtimeId) || !s.kinds.includes(r.trigger.kind) ||
      !receipt.sources.includes(r.trigger.source) || r.policyHash !== s.policyHash ||
      !s.environments.includes(r.environmentHash), 'not_allowed',
        'the policy does not allow the run behind the capability');
    const age = this.clock().now - r.issuedAt;
    refuseIf(age > s.maxAge + SKEW || age < -SKEW, 'expired', 'the attestation behind the capability is too old');
  }

  private verified(post: Post, keys: Key[]): Verdict {
    return {
      status: 'verified', code: 'ok', detail: 'the evidence is good, and not used up yet', post,
      consume: async (store = this.options.store) => {
        try {
          if (!await store.consume(keys)) refuse('replayed', 'this evidence was used before');
        } catch (error) {
          return failed(error);
        }
        const v: Verdict = { status: 'verified', code: 'ok', detail: 'used up', post, consume: async () =>
          failed(new Refusal('replayed', 'this evidence was used before')) };
        return v;
      },
    };
  }
}

const keyOf = (kind: string, c: Claims): Key => ({ kind, id: `${c.iss} ${c.jti}`, expires: c.exp + SKEW });

function postOf(c: Claims): Post {
  const { subject, action, resource, contentHash: content } = c.binding;
  return { subject, action, resource, contentHash: content, capabilityId: c.jti, sessionId: c.session.sessionId,
    runtimeId: c.runtime.runtimeId, trigger: c.runtime.trigger };
}

async function trustOf(files: Files, strict: Strict): Promise<Trust> {
  const roots = [parseRoot(files.registry, 'signer_certificate'), parseRoot(files.auditor, 'deployment_certificate')];
  const bundle = document(files.bundle, emptyBundle, MAX_BUNDLE, 'trust_malformed');
  return Trust.open(roots, bundle.certificates, bundle.revocations, strict.signers);
}

