// Verifies the chain of a recorded post with public keys alone: each signed artifact, against the others and against
// the record's call, event, session and manifest.
import { equal, fromBase64, fromBase64url, textOf, tokenHash } from './bytes.js';
import { ANSWER_COMPONENTS, ANSWER_TAG } from './answer.js';
import * as a from './claims.js';
import type { Claims } from './claims.js';
import * as chain from './chain.js';
import type { PostRecord } from './export.js';
import { SignatureError, contentDigest, openBase, valueOf } from './httpsig.js';
import type { Strict } from './manifest.js';
import type { PastTrust } from './past.js';
import { Refusal, codeOf, refuse, refuseIf } from './refusal.js';
import { agentStatement, counts, reputation } from './reputation.js';
import { HeaderList } from './request.js';
import type { Expected } from './trust.js';

/** One check of a record, and the artifact that broke it. */
export interface Check { name: string; where: string; code: string; detail: string }

export const MISSING = 'artifact_missing';
export const ANSWER = "API's answer";

/** The names of checks that the record's own members rest on. */
export const CHECKS = { trigger: 'origin proof and trigger receipt', session: 'agent session receipt',
  deployment: 'deployment certificate', proof: 'request proof' };

const same = (what: string, ...pairs: [unknown, unknown][]): void => chain.same('record_mismatch', what, ...pairs);

/** Verifies the artifacts of a record as of a moment (Unix seconds). */
export class Judge {
  private readonly tokens: Record<string, string>;
  private work: Claims = { binding: {} };
  private bound = '';
  private readonly opened: Record<string, Claims> = {};
  private where = '';

  constructor(private readonly trust: PastTrust, private readonly strict: Strict, private readonly r: PostRecord,
    private readonly owner: string, private readonly now: number) {
    this.tokens = Object.fromEntries(r.artifacts.map(({ name, token }) => [name, token]));
  }

  /** The checks up to the first failed one. A missing artifact ends nothing: a refused post's record lacks some. */
  async checks(): Promise<Check[]> {
    const { r, tokens } = this;
    const steps: [string, () => Promise<void>][] = [
      ['call', () => this.call()], [CHECKS.trigger, () => this.trigger()], ['policy decision', () => this.decision()],
      ['action grant', () => this.grant()], ['runtime attestation', () => this.runtime()],
      [CHECKS.session, () => this.session()], [CHECKS.deployment, () => this.deployment()],
      [CHECKS.proof, () => this.proof()],
    ];
    if (tokens.agentStatement) steps.push(['agent statement', () => this.statement()]);
    if (r.answer) steps.push([ANSWER, () => this.answer()]);
    const out: Check[] = [];
    for (const [name, step] of steps) {
      const check = { name, where: '', code: '', detail: '' };
      out.push(check);
      try {
        await step();
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        Object.assign(check, { where: this.where, code: codeOf(error), detail: error.message });
        if (check.code !== MISSING) break;
      }
    }
    return out;
  }

  private open = async (kind: a.Kind, token: string, want: Expected) =>
    this.trust.open(kind, token, want, { now: this.now, skew: 2 });

  /** Opens the artifact with this name in the record. */
  private async take(name: string, kind: a.Kind, want: Expected): Promise<Claims> {
    this.where = name;
    const { claims } = await this.open(kind, this.tokens[name] ?? '', want);
    this.opened[name] = claims;
    return claims;
  }

  private of = (name: string): Claims => this.opened[name] ?? {};

  private async call(): Promise<void> {
    const { r } = this;
    this.where = 'challenge';
    const work = await a.unverified(a.challengeToken, this.tokens.challenge ?? '');
    this.where = 'record';
    this.work = work;
    const { action = '', contentHash = '', resource = '', subject = '' } = r;
    const asked: a.Binding = { action, contentHash, resource, subject };
    a.checkBinding(asked);
    refuseIf(!work.binding || !chain.sameAction(work.binding, asked), 'challenge_refused',
      "the challenge is for another subject, action, resource or content than the record's call");
    this.bound = work.bindingHash = await a.bindingHash(work.binding);
    const [method, target, message] = splitTwice(resource);
    same('record', [r.bindingHash ?? '', this.bound], [r.message ?? '', message],
      [`${r.method ?? ''} ${r.path ?? ''}`, `${method} ${target.split('?', 1)[0]}`]);
  }

  private async trigger(): Promise<void> {
    const { strict: s, tokens } = this;
    this.where = 'triggerReceipt';
    refuseIf(!tokens.originProof && tokens.triggerReceipt, 'artifacts_mismatch',
      'the record has a trigger receipt without its origin proof');
    const origin = await this.take('originProof', a.originProof, s.origin);
    const receipt = await this.take('triggerReceipt', a.triggerReceipt, s.receipt);
    chain.checkTrigger(s, origin, receipt, await tokenHash(tokens.originProof!), this.bound);
    same('record', [this.r.event ?? '', receipt.eventId]);
  }

  /** It also opens the reputation token, which in a live call the policy engine does. */
  private async decision(): Promise<void> {
    const { strict: s, tokens: { policyDecision, reputation: rated = '' } } = this;
    this.where = 'policyDecision';
    refuseIf(rated !== '' && !policyDecision, 'artifacts_mismatch',
      'the record has a reputation without the policy decision that names it');
    const d = await this.take('policyDecision', a.policyDecision, s.decision);
    chain.checkDecision(s, this.work, this.of('originProof'), d);
    if (rated === '' && d.reputationHash === undefined) return;
    this.where = 'reputation';
    refuseIf(rated !== '' && await tokenHash(rated) !== d.reputationHash, 'artifacts_mismatch',
      "the policy decision does not name the record's reputation token");
    const c = await this.take('reputation', reputation, s.autonomy);
    refuseIf(c.owner !== this.owner || c.agent !== this.work.binding.subject, 'reputation_mismatch',
      'the reputation is about another agent');
    refuseIf(c.scoringHash !== s.autonomy.scoringHash, 'pin_mismatch',
      'the reputation was computed by other formulas than the manifest requires');
    refuseIf(s.autonomy.requireVerification && !counts(c.verification, this.now, s.autonomy.allowDegraded),
      'reputation_insufficient', 'the reputation shows no verification that counts');
  }

  private async grant(): Promise<void> {
    const g = await this.take('grant', a.actionGrant, this.strict.grant);
    chain.checkGrant(this.work, this.of('policyDecision'), await tokenHash(this.tokens.policyDecision ?? ''), g);
  }

  private async runtime(): Promise<void> {
    const { strict: s, tokens } = this;
    const c = await this.take('runtimeAttestation', a.runtimeAttestation, s.runtime);
    chain.checkAttestation(s, this.work, this.of('triggerReceipt'), await tokenHash(tokens.triggerReceipt ?? ''), c);
    if (!tokens.policyDecision) return; // a denied post's attestation has no decision beside it
    const d = this.of('policyDecision');
    chain.same('artifacts_mismatch', 'runtime attestation', [c.runtimeId, d.runtimeId]);
    chain.same('pin_mismatch', 'runtime attestation', [c.environmentHash, d.environmentHash]);
  }

  private async session(): Promise<void> {
    const c = await this.take('sessionReceipt', a.sessionReceipt, this.strict.session);
    chain.checkSession(this.strict, this.work, this.of('triggerReceipt'), this.of('runtimeAttestation'), c);
    same('record', [this.r.session ?? '', c.sessionId]);
  }

  private async deployment(): Promise<void> {
    const { r, strict: s, tokens } = this;
    this.where = 'deploymentCertificate';
    await chain.verifyDeployment({ strict: s, open: this.open, own: () => refuse('internal', '') },
      tokens.deploymentCertificate ?? '');
    if (r.manifest) same('record', [r.manifest, s.manifestHash]);
  }

  private async proof(): Promise<void> {
    const { r, tokens, work } = this;
    const p = await this.take('requestProof', a.requestProof, this.strict.requestProof);
    const b = work.binding;
    chain.same('artifacts_mismatch', 'request proof', [p.capabilityId, r.capabilityId ?? ''],
      [p.bindingHash, this.bound], [p.contentHash, b.contentHash], [p.subject, b.subject], [p.action, b.action],
      [p.resource, b.resource]);
    if (!tokens.capability) return;
    this.where = 'capability';
    const c = await a.unverified(a.capability, tokens.capability);
    same('record', [c.jti, r.capabilityId ?? ''], [await a.bindingHash(c.binding), this.bound]);
  }

  private async statement(): Promise<void> {
    const { r, work } = this;
    const s = await this.take('agentStatement', agentStatement, this.strict.statement);
    chain.same('statement_mismatch', 'statement', [s.owner, this.owner], [s.statementHash, work.binding.contentHash],
      [s.bindingHash, this.bound], [s.agent, work.binding.subject], [s.session, r.session ?? ''],
      [s.eventId, r.event ?? '']);
  }

  /** An API's signed answer, against the record's outcome and call. */
  private async answer(): Promise<void> {
    const { r } = this;
    this.where = 'answer';
    const mismatch = (why: string): never => refuse('record_mismatch', `the API's answer: ${why}`);
    const { base, signature, publicKey, keyId } = r.answer;
    const [bytes, x] = [signature, publicKey].map((text: string | null) => fromBase64(text ?? '') ?? new Uint8Array());
    try {
      const { values, params } = await openBase(base, bytes!, x!);
      if (!['forwarded', 'indeterminate'].includes(r.state)) mismatch('the record says that there is none');
      const [, path = ''] = splitTwice(r.resource ?? '');
      const content = Uint8Array.from(r.contentHash?.match(/../g) ?? [], (digits: string) => parseInt(digits, 16));
      const headers = new HeaderList([['content-digest', contentDigest(content)],
        ['idempotency-key', r.capabilityId ?? '']]);
      const m = { status: r.status ?? 0, headers: new HeaderList([]),
        request: { method: r.method ?? '', url: `${r.scheme ?? ''}://${r.host ?? ''}${path}`, headers } };
      for (const name of ANSWER_COMPONENTS) { // the answer's body is not in the record
        const got = values.get(name);
        const want = name === 'content-digest' ? got : valueOf(m, name);
        if (got === undefined || got !== want) mismatch(`it and the record differ in ${name}`);
      }
      const [started, finished] = [seconds(r.started), seconds(r.finished ?? '0001-01-01T00:00:00Z')];
      const { created = 0, keyid, tag } = params;
      if (tag !== ANSWER_TAG || (keyid ?? '') !== keyId || created < started - 360 || created > finished + 300) {
        mismatch('it has another tag, key id or time than the record');
      }
    } catch (error) {
      if (error instanceof SignatureError) mismatch(error.message);
      throw error;
    }
  }
}

const seconds = (time: string): number => Date.parse(time) / 1000;

/** A resource as method, target and message: a target has no space. */
function splitTwice(resource: string): [string, string, string] {
  const [, method = resource, rest = ''] = /^([^ ]*) (.*)$/s.exec(resource) ?? [];
  const [, target = rest, message = ''] = /^([^ ]*) (.*)$/s.exec(rest) ?? [];
  return [method, target, message];
}

/** The unverified header and claims of a token, to show them. */
export function shown(token: string): { kid: string; claims: unknown } {
  const [head, payload] = token.split('~', 1)[0]!.split('.').map((part) => {
    try {
      return JSON.parse(textOf(fromBase64url(part) ?? new Uint8Array()) ?? 'null');
    } catch {
      return null;
    }
  });
  return { kid: typeof head?.kid === 'string' ? head.kid : '', claims: payload ?? null };
}

/** Whether two roots are one key. */
export const sameKey = (x: { kid: string; x: Uint8Array; pub?: Uint8Array | undefined }, y: typeof x): boolean =>
  x.kid === y.kid && equal(x.x, y.x) && equal(x.pub ?? new Uint8Array(), y.pub ?? new Uint8Array());

