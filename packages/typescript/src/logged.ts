// Compares records with the transparency log: whether it holds the same ones, and who saw it.
import { type Bytes, equal, hash } from './bytes.js';
import { type Json, type Members, canonical } from './json.js';
import type { Cosignature, Policy } from './logpolicy.js';
import { type Verified, verifyProof } from './proof.js';
import { type Proofs, type PostRecord, withoutArtifacts } from './export.js';
import { Refusal, refuse, refuseIf } from './refusal.js';

const MAX_SKEW = 60_000; // milliseconds
const WITNESS_SKEW = 2 * MAX_SKEW; // of two clocks: the log takes no cosignature that differs more
// From a post's start to its intent in the log. It is many times what a post takes: an older post was entered later, so
// as if it had been made then. An outcome can wait for a ledger that is away, however long.
const MAX_LOGGED = 2 * 3600_000;
const MAX_DOUBTS = 100;

/** A record that the log does not hold, or is not known to hold. */
export interface Doubt { id: string; code: string; detail: string }

/** held: the log of the policy holds exactly this record. */
export type LogResult = '' | 'held' | 'not_known' | 'refused';

const OUTCOMES = ['forwarded', 'failed', 'indeterminate'];
/** Whether a state is an outcome of a post that had begun. */
export const isOutcome = (state: string): boolean => OUTCOMES.includes(state);

/** Counts the records of sent posts that equal the log's entries. The log has no refused posts. */
export class LogJudge {
  log = '';
  posts = 0;
  held = 0;
  refused: Doubt[] = [];
  refusedCount = 0;
  notKnown: Doubt[] = [];
  notKnownCount = 0;
  /** How many of them a witness saw; the others are the operator's word. */
  witnessed = 0;
  by: { witness: string; posts: number; latest: number }[] = [];
  private readonly ids = new Set<string>();
  private readonly entries = new Map<number, Bytes>();
  private readonly states = new Map<number, Bytes>();

  constructor(private readonly policy: Policy | undefined) {}

  /** Judges one record by its proofs. */
  async add(r: PostRecord, p: Proofs): Promise<{ result: LogResult; doubt?: Doubt }> {
    const refused = r.state === 'refused';
    const id = r.id.slice(0, 64);
    if (!refused) this.posts++;
    let seen: Cosignature[];
    try {
      seen = await this.verify(r, p);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      const doubt = { id, code: error.code, detail: error.message };
      this.refusedCount++;
      if (this.refused.length < MAX_DOUBTS) this.refused.push(doubt);
      return { result: 'refused', doubt };
    }
    if (refused) return { result: '' };
    const ended = isOutcome(r.state);
    const detail = p.intent === '' ? 'there is no proof that the log holds it'
      : !ended && p.outcome !== '' ? 'the log holds an outcome, which the record had not yet'
      : !ended ? 'it had no outcome yet'
      : p.outcome === '' ? 'there is no proof that the log holds its outcome'
      : this.policy ? '' : 'no policy names the log of its proofs';
    if (detail !== '') {
      const doubt = { id, code: '', detail };
      this.notKnownCount++;
      if (this.notKnown.length < MAX_DOUBTS) this.notKnown.push(doubt);
      return { result: 'not_known', doubt };
    }
    this.held++;
    this.witness(seen);
    return { result: 'held' };
  }

  private async verify(r: PostRecord, p: Proofs): Promise<Cosignature[]> {
    refuseIf(this.ids.has(r.id), 'record_mismatch', 'there is another record with this id');
    this.ids.add(r.id);
    refuseIf(r.state === 'refused' && p.intent + p.outcome !== '', 'record_mismatch',
      'the record says that nothing was sent, but the log has the post');
    const intent = p.intent === '' ? undefined : await this.proof(r, 'intent', p.intent, millis(r.started));
    const outcome = p.outcome === '' || !isOutcome(r.state) ? undefined
      : await this.proof(r, 'outcome', p.outcome, millis(r.finished ?? r.started));
    refuseIf(outcome && outcome.size > 0 && outcome.index < (intent?.index ?? 0), 'record_mismatch',
      'the log holds its outcome before its intent');
    return (intent?.witnesses ?? []).flatMap((x) => {
      const y = outcome?.witnesses.find(({ witness }) => witness === x.witness);
      return y ? [{ witness: x.witness, time: Math.max(x.time, y.time) }] : [];
    });
  }

  /** Verifies one proof of a record, which says that the logged event was at a time (Unix milliseconds). */
  private async proof(r: PostRecord, kind: string, text: string, at: number): Promise<Verified> {
    const v = await verifyProof(text, this.policy);
    const { entry } = v.opening;
    const mismatch = (failed: boolean, why: string): void => refuseIf(failed, 'record_mismatch', why);
    mismatch(entry.kind !== kind, `the proof of its ${kind} is one of the kind ${entry.kind}`);
    mismatch(at - entry.time > MAX_SKEW, `the log got its ${kind} before the record's own time`);
    mismatch(kind === 'intent' && entry.time - at > MAX_LOGGED,
      'the record is backdated: the log got its intent much later');
    const early = v.witnesses.find(({ time }) => entry.time - time * 1000 > WITNESS_SKEW);
    mismatch(early !== undefined, `the witness ${early?.witness} saw the log's entry of its ${kind} before its time`);
    const want = kind === 'intent' ? await intentOf(r) : await outcomeOf(r);
    mismatch(canonical(want) !== canonical(v.opening.document), `the record does not match the ${kind} in the log`);
    if (this.policy) this.log = v.origin;
    this.learn(this.entries, v.index, v.entryHash, 'entry');
    this.learn(this.states, v.size, v.root, 'size');
    return v;
  }

  private learn(all: Map<number, Bytes>, at: number, value: Bytes, what: string): void {
    const before = all.get(at);
    if (before && !equal(before, value)) {
      refuse('log_contradicted', `the log differs at ${what} ${at} between two proofs: no log can hold both`);
    }
    all.set(at, value);
  }

  private witness(seen: Cosignature[]): void {
    if (seen.length > 0) this.witnessed++;
    for (const { witness, time } of seen) {
      const by = this.by.find((known) => known.witness === witness);
      if (!by) this.by.push({ witness, posts: 1, latest: time });
      else [by.posts, by.latest] = [by.posts + 1, Math.max(by.latest, time)];
    }
  }
}

const millis = (time: string): number => Date.parse(time);

const SAME = ['action', 'bindingHash', 'capabilityId', 'contentHash', 'event', 'flow', 'host', 'id', 'method', 'path',
  'resource', 'rule', 'session', 'started', 'subject'] as const;

/** The document of a post's intent: it has the hash of the members that no outcome changes. */
async function intentOf(r: PostRecord): Promise<Members> {
  const same: Members = {};
  for (const name of SAME) if (r[name] !== undefined) same[name] = r[name] as Json;
  const artifacts = await Promise.all(r.artifacts.map(async ({ name, token }) => ({ hash: await hash(token), name })));
  if (artifacts.length > 0) same.artifacts = artifacts;
  const proof = artifacts.findLast(({ name }) => name === 'requestProof')?.hash;
  return { ...named(r), record: await hash(canonical(same)), ...(proof !== undefined && { requestProof: proof }) };
}

/** The document of a post's outcome: it has the hash of all members but the artifacts. */
async function outcomeOf(r: PostRecord): Promise<Members> {
  return { ...named(r), record: await hash(canonical(withoutArtifacts(r))), ...(r.state && { state: r.state }),
    ...(r.code && { code: r.code }), ...(r.status && { status: r.status }) };
}

const named = (r: PostRecord): Members => ({ ...(r.id && { post: r.id }), ...(r.session && { session: r.session }) });

