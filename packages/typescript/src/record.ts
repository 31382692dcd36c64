// Verifies records of any age, as mediator posts export writes them: in a browser, in Node, without a network.
import { equal, fromBase64, utf8 } from './bytes.js';
import * as a from './claims.js';
import type { Claims } from './claims.js';
import { type Export, type Exported, type Pins, type PostRecord, type Trusted, readExport, readPins, unpacked }
  from './export.js';
import { type Keys, parseKeys, thumbprint } from './httpsig.js';
import { type Check, Judge, MISSING, sameKey, shown } from './judge.js';
import { type Lines, linesOf, textOfReport } from './lines.js';
import { type Doubt, LogJudge, type LogResult } from './logged.js';
import { parsePolicy } from './logpolicy.js';
import type { Strict } from './manifest.js';
import { ANSWER_KEY, checkRecord, headOf, timesOf, tokenOf, unproven, whose } from './members.js';
import { PastTrust } from './past.js';
import { interactionReceipt, isCode } from './receipts.js';
import { Refusal, codeOf, refuse, refuseIf, unlessRefused } from './refusal.js';
import { Sessions } from './sessions.js';
import { Trust } from './trust.js';

export type { Check } from './judge.js';
export type { Line, Lines } from './lines.js';
export type { Pins } from './export.js';
export { Refusal } from './refusal.js';

const MAX_BYTES = 256 << 20;
const RECEIPTS = 'interaction receipts';

export interface ExportOptions {
  /** Unix milliseconds. */
  now?: number;
  /** PEM public keys with which APIs sign answers, by host; those of an empty host are for all. */
  answerKeys?: Record<string, string[]>;
  /** Who may sign and cosign the transparency log (c2sp.org/tlog-policy). */
  logPolicy?: string;
  /** Bounds the unpacked export; 256 MiB. */
  maxBytes?: number;
}

/** One artifact of a post, unverified: what it says, who says so, and the token itself. */
export interface Artifact { kind: string; claims: unknown; signer: string; raw: string }

/** One record with its result. incomplete: its record says that the post was refused, and what is there is valid. */
export interface JudgedPost {
  id: string;
  status: 'verified' | 'incomplete' | 'refused';
  /** ok, or the code of the check that refused it. */
  code: string;
  /** The check that refused it. */
  check: string;
  /** The artifact that broke it, or record, receipts, answer or trust. */
  where: string;
  detail: string;
  checks: Check[];
  artifacts: Artifact[];
  record: Claims;
  outcome: { state: string; status?: number; whose: string };
  /** Members of the record that no signature proves; empty for a refused one. */
  unproven: string[];
  log: LogResult;
  logDoubt?: Doubt;
}

export interface Report {
  /** verified: nothing is refused. unavailable: this platform cannot judge it. */
  status: 'verified' | 'refused' | 'unavailable';
  code: string;
  detail: string;
  /** Four results, of which none speaks for another. */
  lines: Lines;
  posts: JudgedPost[];
  /** The roots whose records are here. */
  roots: { registry: string; auditor: string; revocations?: number; earlier: number }[];
  /** Posts with a receipt and without a record. */
  missing: string[];
  /** Whether a receipt's signature and its place in its session's chain are verified. */
  receiptVerified: (token: string) => boolean;
  /** What mediator verify prints. */
  text: string;
}

/** What the export's roots have signed, as the verifier believes it. */
interface Believed extends Trusted {
  pins: Trust;
  owner: string;
  pinned: boolean;
  answerKeys: Map<string, Keys>;
  /** Verified by whether post-quantum signatures are required, and then under each manifest. */
  bases: Map<boolean, Promise<PastTrust>>;
  past: Map<Strict, Promise<PastTrust>>;
}

/**
 * Verifies an export, which may be compressed with gzip. trust are the roots that you pin, today's first. It throws a
 * Refusal for malformed roots, keys and policies of yours, and never for the export.
 */
export async function verifyExport(file: Uint8Array | string, trust: Pins | Pins[], options: ExportOptions = {}):
  Promise<Report> {
  const pins = await Promise.all([trust].flat().map(readPins));
  const answerKeys = await keysOf(options.answerKeys ?? {});
  const policy = options.logPolicy === undefined ? undefined : await parsePolicy(options.logPolicy);
  const judging = new Judging(pins, answerKeys, new LogJudge(policy), Math.floor((options.now ?? Date.now()) / 1000));
  try {
    const bytes = typeof file === 'string' ? utf8(file) : file;
    return await judging.all(await readExport(await unpacked(bytes, options.maxBytes ?? MAX_BYTES)));
  } catch (error) {
    return judging.failed(error);
  }
}

async function keysOf(pem: Record<string, string[]>): Promise<Map<string, Keys>> {
  const all = new Map<string, Keys>();
  for (const [host, files] of Object.entries(pem)) {
    const keys: Keys = new Map();
    for (const file of files) {
      for (const [id, x] of await parseKeys(file)) keys.set(id, x);
    }
    all.set(host, keys);
  }
  return all;
}

class Judging {
  private readonly posts: JudgedPost[] = [];
  private readonly used = new Set<Believed>();
  private readonly once = new Set<string>();
  private readonly sessions: Sessions;
  private readonly receiptVerified = (token: string): boolean => this.sessions.verified.has(token);

  constructor(private readonly pins: Trusted[], private readonly answerKeys: Map<string, Keys>,
    private readonly log: LogJudge, private readonly now: number) {
    this.sessions = new Sessions();
  }

  /** The result of an export that cannot be judged as a whole. */
  failed(error: unknown): Report {
    const code = codeOf(error);
    const status = error instanceof Refusal ? 'refused' : 'unavailable';
    const detail = error instanceof Error ? error.message : String(error);
    return { status, code, detail, posts: this.posts, roots: [], missing: [], text: '',
      receiptVerified: this.receiptVerified,
      lines: linesOf(this.posts, this.log, 'nothing was verified') };
  }

  async all({ trusts, records }: Export): Promise<Report> {
    const believed = await Promise.all(trusts.map((t) => this.believed(t)));
    for (const one of records) {
      this.sessions.deliver(one.record.session ?? '', one.receipts);
      this.posts.push(await this.post(believed, one));
    }
    refuseIf(this.posts.length === 0, 'evidence_malformed', 'there is no record with evidence: nothing was verified');
    const count = (status: string) => this.posts.filter((p) => p.status === status).length;
    const unasked = this.sessions.unasked();
    refuseIf(count('refused') === 0 && unasked > 0, 'evidence_malformed',
      `${unasked} interaction receipts of the export are not used by any of its records`);
    const roots = await Promise.all(believed.filter((t) => this.used.has(t)).map(async (t) => {
      const signed = await signedAt(t.revocations);
      return { registry: t.roots[0].kid, auditor: t.roots[1].kid, earlier: t.earlierRevocations.length,
        ...(signed > 0 && { revocations: signed }) };
    }));
    const refused = count('refused') + this.log.refusedCount > 0;
    const report: Report = {
      status: refused ? 'refused' : 'verified', code: 'ok', detail: '', posts: this.posts, roots,
      lines: linesOf(this.posts, this.log), missing: this.sessions.missing(), text: '',
      receiptVerified: this.receiptVerified,
    };
    const first = this.posts.find((p) => p.status === 'refused');
    if (refused) {
      [report.code, report.detail] = first ? [first.code, first.detail]
        : [this.log.refused[0]!.code, this.log.refused[0]!.detail];
    }
    return { ...report, text: textOfReport(report) };
  }

  /** An export's trust with the verifier's own certificates and revocations, which count, too. */
  private async believed(t: Trusted): Promise<Believed> {
    const own = this.pins.filter((o) => o.roots.every((root, i) => sameKey(root, t.roots[i]!)));
    const joined = { ...t, earlier: [...t.earlier], earlierRevocations: [...t.earlierRevocations] };
    for (const o of own) {
      joined.earlier = [...joined.earlier, ...joined.certificates];
      joined.certificates = o.certificates;
      const [newer, older] = await signedAt(o.revocations) < await signedAt(joined.revocations)
        ? [joined.revocations, o.revocations] : [o.revocations, joined.revocations];
      if (older !== '') joined.earlierRevocations.push(older);
      joined.revocations = newer;
    }
    const none = { issuers: [], audiences: [], keyIds: [], maxAge: 0, denyAgentAccessible: false,
      denyUserAccessible: false, maxRevocationAge: 0 };
    return { ...joined, pins: await Trust.open(t.roots, [], '', none), owner: await thumbprint(t.roots[0].x),
      pinned: own.length > 0, answerKeys: this.answerKeys, bases: new Map(),
      past: new Map() };
  }

  private async post(all: Believed[], { record: r, proofs }: Exported): Promise<JudgedPost> {
    const t = await this.trustOf(all, r);
    const out: JudgedPost = {
      id: r.id, status: 'refused', code: '', check: '', where: '', detail: '', checks: [], record: r, unproven: [],
      artifacts: r.artifacts.map(({ name, token }) => {
        const { kid, claims } = shown(token);
        return { kind: name, claims, signer: kid, raw: token };
      }),
      outcome: { state: r.state, ...(r.status && { status: r.status }), whose: 'nobody: the record is refused' },
      log: '',
    };
    try {
      await this.judge(t, r, out);
    } catch (error) {
      const check = { name: 'trust', where: 'trust', code: codeOf(error), detail: (error as Error).message };
      if (!(error instanceof Refusal)) throw error;
      out.checks.push(check);
      refusedBy(out, check);
    }
    if (out.status !== 'refused') this.used.add(t);
    else out.unproven = [];
    const { result, doubt } = await this.log.add(r, proofs);
    return { ...out, log: result, ...(doubt && { logDoubt: doubt }) };
  }

  /** The trust whose auditor signed the record's deployment certificate, or without one, that with its manifest.
   * Several can, as after one of two roots was replaced: the first that knew its keys by then. Otherwise today's. */
  private async trustOf(all: Believed[], r: PostRecord): Promise<Believed> {
    const token = tokenOf(r, 'deploymentCertificate');
    let found: Believed | undefined;
    for (const t of all.length > 1 ? all : []) {
      if (token === '' ? t.manifests.has(r.manifest ?? '') : await t.pins.signed(a.deploymentCertificate, token)) {
        if (await knew(t, r)) return t;
        found ??= t;
      }
    }
    return found ?? all[0]!;
  }

  private async judge(t: Believed, r: PostRecord, out: JudgedPost): Promise<void> {
    if (!t.pinned) {
      refuse('roots_not_pinned', `the record belongs to roots that are not pinned here: ${t.roots[0].kid} and ` +
        t.roots[1].kid);
    }
    const strict = manifestOf(t, r.manifest ?? '', 'record');
    const past = await believedBy(t, strict);
    const times = await timesOf(r);
    for (const at of [times.moment, times.moment - 1]) {
      refuseIf(at > this.now + 2, 'clock_skew', 'the evidence cannot be verified as of a moment in the future');
      out.checks = await new Judge(past, strict, r, t.owner, at).checks();
      if (refusal(out.checks)?.code !== 'signature_invalid') break; // by the key before a restart in this second
    }
    const check = async (name: string, where: string, judge: () => unknown): Promise<void> => {
      if (refusal(out.checks)) return;
      try {
        await judge();
        out.checks.push({ name, where: '', code: '', detail: '' });
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        out.checks.push({ name, where, code: error.code, detail: error.message });
      }
    };
    await check('record', 'record', () => checkRecord(r, strict.manifestHash, times, this.now));
    if (r.answer && t.answerKeys.size > 0) await check(ANSWER_KEY, 'answer', () => checkAnswerKey(t, r));
    let receipt: Claims | undefined;
    const head = await headOf(r);
    if (head && !refusal(out.checks)) {
      try {
        const found = await this.sessions.verify(this.opener(t), t.owner, r, head);
        receipt = found?.post;
        if (found) out.checks.push({ name: RECEIPTS, where: '', code: '', detail: '' });
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        out.checks.push({ name: RECEIPTS, where: 'receipts', code: error.code, detail: error.message });
      }
    }
    const refused = refusal(out.checks);
    if (refused) return refusedBy(out, refused);
    out.unproven = unproven(out.checks, receipt, r.state);
    const again = await this.again(r);
    if (again) return refusedBy(out, again);
    const missing = out.checks.find(({ code }) => code !== '');
    if (missing && r.state !== 'refused') return refusedBy(out, missing);
    out.status = missing ? 'incomplete' : 'verified';
    [out.code, out.outcome.whose] = ['ok', whose(r, out.checks)];
  }

  /** Refuses a second record with an id or a binding: each post has one record. */
  private async again(r: PostRecord): Promise<Check | undefined> {
    for (const [what, value] of [['id', r.id], ['binding', r.bindingHash ?? '']] as const) {
      const key = `${what} ${value}`;
      if (value !== '' && this.once.has(key)) {
        return { name: 'record', where: 'record', code: 'record_mismatch',
          detail: `there is another record with this ${what}` };
      }
      if (value !== '') this.once.add(key);
    }
    return undefined;
  }

  /** Opens each receipt by the manifest that it names and the certificates of its time. */
  private opener(t: Believed) {
    return async (token: string, c: Claims): Promise<Claims> => {
      const strict = manifestOf(t, c.policy_id, 'receipt');
      const past = await believedBy(t, strict);
      refuseIf(c.iat > this.now + 2, 'clock_skew', 'the receipt is of the future');
      return openReceipt(past, token, strict, c.iat);
    };
  }
}

async function openReceipt(past: PastTrust, token: string, strict: Strict, at: number): Promise<Claims> {
  const open = async (now: number) =>
    (await past.open(interactionReceipt, token, strict.interaction, { now, skew: 2 })).claims;
  return open(at).catch((error) => {
    if (isCode(error, 'signature_invalid')) return open(at - 1); // by the key before a restart in this second
    throw error;
  });
}

/** The manifest with a hash, or the only one. */
function manifestOf(t: Believed, hash: string, what: string): Strict {
  const only = t.manifests.size === 1 ? [...t.manifests.values()][0] : undefined;
  return t.manifests.get(hash) ?? only ??
    refuse('manifest_unknown', `the ${what} was judged by manifest ${hash}, which is missing`);
}

/** The certificates of all times that a manifest believes. The lists are verified once. */
function believedBy(t: Believed, strict: Strict): Promise<PastTrust> {
  const required = strict.signers.requirePostQuantum ?? false;
  const none = { issuers: [], audiences: [], keyIds: [], maxAge: 0, denyAgentAccessible: false,
    denyUserAccessible: false, maxRevocationAge: 0, requirePostQuantum: required };
  const base = t.bases.get(required) ?? PastTrust.read([...t.roots], [...t.earlier, ...t.certificates],
    [t.revocations, ...t.earlierRevocations], none);
  t.bases.set(required, base);
  const past = t.past.get(strict) ?? base.then((b) => b.under(strict.signers));
  t.past.set(strict, past);
  return past;
}

/** Whether a trust has the record's manifest, and one of its keys was certified by then, or is revoked. */
async function knew(t: Believed, r: PostRecord): Promise<boolean> {
  const strict = t.manifests.get(r.manifest ?? '');
  if (!strict) return false;
  const at = { now: (await timesOf(r)).moment, skew: 2 };
  const past = await unlessRefused(() => believedBy(t, strict));
  for (const { token } of past ? r.artifacts : []) {
    if (await unlessRefused(() => past!.knew(shown(token).kid, at))) return true;
  }
  return false;
}

/** The unverified time of a revocation list, or 0. */
const signedAt = async (list: string): Promise<number> =>
  (list === '' ? 0 : a.unverified(a.revocationList, list).then(({ iat }) => iat, () => 0));

/** The check that refused a record, unless at most artifacts are missing. */
const refusal = (checks: Check[]): Check | undefined => checks.find(({ code }) => code !== '' && code !== MISSING);

function refusedBy(out: JudgedPost, { name, where, code, detail }: Check): void {
  Object.assign(out, { status: 'refused', check: name, where, code, detail });
}

function checkAnswerKey(t: Believed, r: PostRecord): void {
  const { keyId, publicKey } = r.answer;
  const host = (r.host ?? '').replace(/:443$/, '');
  const key = t.answerKeys.get(host)?.get(keyId) ?? t.answerKeys.get('')?.get(keyId);
  refuseIf(!key || !equal(key, fromBase64(publicKey) ?? new Uint8Array()), 'record_mismatch',
    `the key of the API's answer, ${keyId}, is not in --api-keys for ${host}`);
}
