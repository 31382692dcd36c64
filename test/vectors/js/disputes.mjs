// The log of disputes: what may come in, and what follows from it. See docs/disputes.md.
import { createPublicKey, verify } from 'node:crypto';
import { canonical, strictJSON } from './canonical.mjs';
import { Refusal, hash, isHash, refuse, refuseIf } from './refusal.mjs';
import { treeHead } from './verification.mjs';

const DAY = 86400;
const STAKE = 7; // days of standing
const TYPES = ['timing', 'knowledge', 'consistency', 'general'];

// --- documents

const isID = (v) => typeof v === 'string' && /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/.test(v);
const isAgent = (v) => typeof v === 'string' && (/^[A-Za-z0-9_-]{43}:[^\x00]{1,256}$/u.test(v) || keyOf(v) !== undefined);
const isText = (longest) => (v) => typeof v === 'string' && v !== '' && [...v].length <= longest;
const isTime = (v) => Number.isSafeInteger(v) && v >= 1;
const isHashText = (v) => typeof v === 'string' && isHash(v);
const isHashes = (v) => Array.isArray(v) && v.length >= 1 && v.length <= 64 && v.every(isHashText) && new Set(v).size === v.length;
const among = (...of) => (v) => of.includes(v);

/** Whether an object has the members of a form, and no others. A ? is optional. */
function fits(object, form) {
  if (object === null || typeof object !== 'object' || Array.isArray(object)) return false;
  const names = Object.keys(form).map((name) => name.replace('?', ''));
  if (Object.keys(object).some((name) => !names.includes(name))) return false;
  return Object.entries(form).every(([name, good]) => {
    const value = object[name.replace('?', '')];
    return value === undefined ? name.endsWith('?') : good(value);
  });
}

const isRest = (v) => fits(v, { receipts: isHashes }) || fits(v, { record: isHashText });
const forms = {
  signal: {
    signal_id: isID, agent_id: isAgent, statement: isText(4096), horizon: among('short', 'long'), timestamp: isTime, 'rests_on?': isRest, 'signature?': isText(16384),
  },
  contract: {
    challenge_id: isID, original_signal_id: isID, challenger_agent_id: isAgent, counter_claim: isText(4096), reasoning_trace: isText(16384), timestamp: isTime,
    'signature?': isText(16384), 'challenge_type?': among(...TYPES), 'target_receipts?': isHashes,
  },
  challenge: {
    challenger_id: isAgent, target_id: isAgent, target_receipts: isHashes, challenge_type: among(...TYPES, 'appeal'), 'evidence?': isText(16384), 'timestamp?': isTime,
    'signature?': isText(16384),
  },
};

const ALPHABET = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';

/** The Ed25519 key that a did:key names. */
function keyOf(id) {
  const digits = /^did:key:z([1-9A-HJ-NP-Za-km-z]{47})$/.exec(id)?.[1];
  if (!digits) return undefined;
  const n = [...digits].reduce((sum, digit) => sum * 58n + BigInt(ALPHABET.indexOf(digit)), 0n);
  const bytes = Buffer.from(n.toString(16).padStart(68, '0'), 'hex');
  return bytes.length === 34 && bytes[0] === 0xed && bytes[1] === 1 ? bytes.subarray(2) : undefined;
}

const kindOf = (document) => (document !== null && typeof document === 'object' && 'original_signal_id' in document ? 'contract' : 'challenge');
const unsigned = ({ signature, ...rest }) => canonical(rest);
const authorOf = (d) => d.agent_id ?? d.challenger_agent_id ?? d.challenger_id;

/** Reads a document of a kind, with its hash. */
export function readDocument(kind, text) {
  let document;
  try {
    document = strictJSON(Buffer.from(text));
  } catch (error) {
    throw error instanceof Refusal ? new Refusal('statement_malformed') : error;
  }
  const form = forms[kind === 'signal' ? kind : kindOf(document)];
  refuseIf(!fits(document, form), 'statement_malformed');
  refuseIf(document.challenge_type === 'appeal' && document.target_receipts.length > 1, 'statement_malformed');
  return { document, hash: hash(unsigned(document)) };
}

/** Verifies the signature of an agent elsewhere over its document. */
export function verifyOwn(document) {
  const key = keyOf(authorOf(document)) ?? refuse('statement_signature');
  refuseIf(!document.timestamp, 'statement_malformed');
  const signature = Buffer.from(document.signature ?? '', 'base64url');
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: key.toString('base64url') };
  const good = signature.toString('base64url') === document.signature && signature.length === 64;
  refuseIf(!good || !verify(null, Buffer.from(unsigned(document)), createPublicKey({ format: 'jwk', key: jwk }), signature), 'statement_signature');
}

// --- the log

const ownerOf = (id) => (id.startsWith('did:') ? undefined : id.slice(0, 43));
const sameOwner = (a, b) => ownerOf(a) === undefined || ownerOf(b) === undefined || ownerOf(a) === ownerOf(b);
const pairOf = (a, b) => [a, b].sort().join(' ');

/** What follows from a log, entry by entry. */
export class Book {
  constructor(entries = []) {
    this.last = 0;
    this.leaves = [];
    this.signals = new Map();
    this.disputes = new Map();
    this.agents = new Map();
    this.parties = new Set(); // of disputes
    this.substances = new Map();
    this.pairs = new Set();
    this.cites = new Set(); // owners with the agents that they have cited
    this.accounts = {};
    for (const entry of entries) this.add(entry);
  }

  of(id) {
    if (!this.agents.has(id)) this.agents.set(id, { open: 0, from: 0, fell: -1, falls: [], violations: [] });
    return this.agents.get(id);
  }

  account(id, entry) {
    (this.accounts[id] ??= []).push(entry);
  }

  add(entry) {
    this.leaves.push(canonical(entry));
    const { at, signal, final, opened, reviewing, appealed, resolved, violation, set_back: setBack } = entry;
    this.last = at;
    if (signal) {
      this.signals.set(signal.signal_id, { ...signal, at, final: false, resolved: [] });
      this.of(signal.agent_id).open++;
    }
    if (final?.dispute_id) this.ended(final.dispute_id, at);
    if (final?.signal_id) {
      const s = this.signals.get(final.signal_id);
      s.final = true;
      this.of(s.agent_id).open--;
      this.note(s, at);
      for (const id of s.resolved) this.end(id, at);
    }
    if (opened) {
      this.disputes.set(opened.dispute_id, { ...opened, at, status: 'pending', outcome: '', effective: false });
      this.substances.set(opened.substance, opened.dispute_id);
      this.spend(opened.challenger_id, opened.registered, { at, days: 1 });
      this.parties.add(opened.challenger_id).add(opened.target_id);
      this.account(opened.target_id, { at, dispute: { dispute_id: opened.dispute_id } });
    }
    if (reviewing) this.disputes.get(reviewing.dispute_id).status = 'reviewing';
    if (resolved) {
      const d = this.disputes.get(resolved.dispute_id);
      Object.assign(d, { status: 'resolved', outcome: resolved.outcome, fault: resolved.fault, malicious: Boolean(resolved.malicious), resolvedAt: at });
      d.until = resolved.appeal_until;
      if (!d.until) this.ended(d.dispute_id, at);
    }
    if (appealed) Object.assign(this.disputes.get(appealed.dispute_id), { status: 'reviewing', since: at, deadline: appealed.deadline, appeal: appealed.document, until: 0 });
    if (setBack) this.setBack(at);
    if (violation) {
      this.of(violation.agent_id).violations.push({ at, rule: violation.rule, document: violation.document });
      this.account(violation.agent_id, { at, violation: { rule: violation.rule } });
    }
  }

  /** A dispute has ended, and counts once its signal is final. */
  ended(id, at) {
    const s = this.signals.get(this.disputes.get(id).signal_id);
    if (s && !s.final) s.resolved.push(id);
    else this.end(id, at);
  }

  /** A wrong clock has been set back to a time: nothing is later. */
  setBack(to) {
    const late = (t) => Math.max(0, (t ?? 0) - to);
    const early = (of, ...names) => names.forEach((name) => of[name] !== undefined && (of[name] = Math.min(of[name], to)));
    for (const s of this.signals.values()) {
      s.closes -= late(s.at);
      early(s, 'at');
    }
    for (const d of this.disputes.values()) {
      d.deadline -= late(d.since ?? d.at);
      if (d.until) d.until -= late(d.resolvedAt);
      early(d, 'at', 'since', 'resolvedAt');
    }
    for (const a of this.agents.values()) {
      a.from -= late(a.acted);
      early(a, 'fell', 'acted');
      for (const v of a.violations) early(v, 'at');
    }
  }

  /** A dispute counts from now on. */
  end(id, at) {
    const d = this.disputes.get(id);
    const { challenger_id: challenger, target_id: target, malicious } = d;
    const about = d.signal_id ?? [...(d.target_receipts ?? [])].sort()[0] ?? d.document;
    const faults = [d.fault, d.signal_id || d.challenge_type === 'general' ? about : undefined].filter(Boolean);
    const { falls } = this.of(target); // what it has lost by, dispute by dispute
    const lost = d.outcome === 'challenger_wins';
    const outcome = lost && falls.flat().some((fault) => faults.includes(fault)) ? 'inconclusive' : d.outcome;
    if (lost) falls.splice(0, falls.push(faults) - 64);
    const pair = pairOf(challenger, target);
    const bonus = outcome !== 'inconclusive' && !sameOwner(challenger, target) && !this.pairs.has(pair);
    if (bonus) this.pairs.add(pair);
    d.effective = true;
    const others = ownerOf(challenger) !== ownerOf(target);
    if (outcome === 'target_wins') {
      this.spend(challenger, d.registered, { at, days: STAKE });
      if (others) this.of(target).from -= DAY;
    }
    if (outcome === 'challenger_wins') {
      if (others) this.of(challenger).from -= 2 * DAY;
      this.of(target).fell = at;
    }
    if (malicious) this.of(challenger).violations.push({ at, rule: 'malicious', document: d.document });
    const gains = (winner) => (bonus && outcome === winner ? { bonus } : {});
    this.account(target, { at, dispute: { dispute_id: id, outcome, ...gains('target_wins'), other: challenger, about } });
    this.account(challenger, { at, raised: { dispute_id: id, outcome, ...gains('challenger_wins'), other: target, about } });
    if (malicious) this.account(challenger, { at, violation: { rule: 'malicious' } });
  }

  /** What the logs of agents get of a signal that is final. */
  note(s, at) {
    const owner = ownerOf(s.agent_id);
    const timestamp = Math.abs(s.at - s.written) <= 300;
    const found = { trace: s.basis === 'observed', sources: Boolean(s.sources), context: owner !== undefined, verification: Boolean(s.registered), timestamp, schema: true };
    this.account(s.agent_id, { at, signal: { signal_id: s.signal_id, ...found } });
    for (const agent of s.cites ?? []) {
      const citation = `${owner ?? ''} ${agent}`;
      if (!sameOwner(s.agent_id, agent) && !this.cites.has(citation)) this.account(agent, { at, cited: { by: s.agent_id, signal_id: s.signal_id } });
      this.cites.add(citation);
    }
  }

  get log() {
    return { entries: this.leaves.length, head: treeHead(this.leaves).toString('hex') };
  }

  time(now) {
    return Math.max(now, this.last);
  }

  /** What an agent can lose, in seconds. */
  standing(id, registered, at) {
    return Math.min(at - Math.max(registered, this.agents.get(id)?.from ?? 0), 21 * DAY);
  }

  spend(id, registered, { at, days }) {
    Object.assign(this.of(id), { from: at - this.standing(id, registered, at) + days * DAY, acted: at });
  }

  state() {
    const standings = Object.fromEntries([...this.parties].map((id) => [id, Math.floor(this.standing(id, 0, this.last) / DAY)]));
    const ends = ([id, { status, outcome, effective }]) => [id, { status, outcome, effective }];
    return {
      log: this.log, signals: Object.fromEntries([...this.signals].map(([id, s]) => [id, s.final])),
      disputes: Object.fromEntries([...this.disputes].map(ends)), standings, accounts: this.accounts,
    };
  }

  // --- what comes in

  /** A signal that comes in: the entry, or nothing where it is there. */
  publish({ at: now, document, registered = 0 }, windows) {
    const name = hash(unsigned(document));
    checkTime(document, now);
    const there = this.signals.get(document.signal_id);
    if (there) {
      refuseIf(there.document !== name, 'id_taken');
      return {};
    }
    const at = this.time(now);
    const { signal_id, agent_id, horizon, timestamp, rests_on: rests = {} } = document;
    const signal = { signal_id, agent_id, document: name, horizon, written: timestamp, closes: at + windows[horizon], basis: 'declared' };
    if (rests.receipts) signal.receipts = rests.receipts;
    if (registered) signal.registered = registered;
    return { entry: { at, signal } };
  }

  /** A contract or a challenge that comes in: the dispute and the entry, and the code where it is refused. */
  file({ at: now, document, registered = 0, receipts: known = [] }, deadline) {
    const name = hash(unsigned(document));
    const id = `dsp_${name.slice(0, 32)}`;
    if (this.disputes.has(id)) return { id };
    checkTime(document, now);
    if (document.challenge_type === 'appeal') return this.appeal(document, name, { now, deadline });
    refuseIf(registered === 0, 'dispute_refused');
    const challenger = authorOf(document);
    const contract = kindOf(document) === 'contract';
    const type = document.challenge_type ?? 'general';
    const signal = contract ? this.signals.get(document.original_signal_id) ?? refuse('not_found') : undefined;
    const target = signal?.agent_id ?? document.target_id;
    const receipts = document.target_receipts ?? (type === 'general' ? [] : signal.receipts ?? []);
    const since = signal ? signal.at : Math.min(this.time(now), ...known.filter((k) => receipts.includes(k.hash)).map((k) => k.at));
    if (!signal?.final) this.checkReceipts(receipts, known, { type, target });
    refuseIf(challenger === target || registered >= since, 'dispute_refused');
    const words = type !== 'general' ? [] : contract ? [document.counter_claim, document.reasoning_trace] : [document.evidence ?? ''];
    const substance = hash(canonical({
      challenger_id: challenger, target_id: target, signal_id: signal?.signal_id ?? '', challenge_type: type, target_receipts: [...receipts].sort(), words,
    }));
    const at = this.time(now);
    const [rule, code] = this.broken({ signal, substance, challenger, registered, now }) ?? [];
    if (rule) return { code, entry: this.violation(challenger, rule, name, at) };
    refuseIf(contract && [...this.disputes.values()].some((d) => d.challenger_id === challenger && d.challenge_id === document.challenge_id), 'id_taken');
    const standing = Math.floor(this.standing(challenger, registered, at) / DAY);
    const opened = { dispute_id: id, challenger_id: challenger, target_id: target, challenge_type: type, document: name, substance, registered, standing, deadline: at + deadline };
    if (contract) Object.assign(opened, { signal_id: signal.signal_id, challenge_id: document.challenge_id });
    if (receipts.length > 0) opened.target_receipts = receipts;
    return { id, entry: { at, opened } };
  }

  /** An appeal: the agent that has lost opens the dispute again. */
  appeal({ challenger_id: by, target_id: against, target_receipts: [document] }, name, { now, deadline }) {
    const id = `dsp_${document.slice(0, 32)}`;
    const d = this.disputes.get(id);
    refuseIf(d?.document !== document, 'not_found');
    if (d.appeal === name) return { id };
    const at = this.time(now);
    refuseIf(d.appeal || at >= (d.until ?? 0), 'dispute_closed');
    const [loser, winner] = d.outcome === 'challenger_wins' ? [d.target_id, d.challenger_id] : [d.challenger_id, d.target_id];
    refuseIf(d.outcome === 'inconclusive' || by !== loser || against !== winner, 'dispute_refused');
    return { id, entry: { at, appealed: { dispute_id: id, document: name, deadline: at + deadline } } };
  }

  checkReceipts(receipts, known, { type, target }) {
    const code = 'dispute_receipts';
    for (const receipt of receipts) {
      const found = known.find((k) => k.hash === receipt) ?? refuse(code);
      refuseIf(found.agent !== target, code);
      refuseIf(type !== 'general' && found.at <= (this.agents.get(target)?.fell ?? -1), code);
    }
    refuseIf(type !== 'general' && receipts.length === 0, code);
    refuseIf(new Set(known.map((k) => k.session)).size > 16, code);
  }

  /** The rule that a dispute breaks, and its code. */
  broken({ signal, substance, challenger, registered, now }) {
    const at = this.time(now);
    if (signal && (signal.final || at >= signal.closes)) return ['window', 'dispute_closed'];
    const before = this.disputes.get(this.substances.get(substance));
    if (before && before.outcome !== 'inconclusive') return ['identical', 'dispute_closed'];
    return this.standing(challenger, registered, at) < STAKE * DAY ? ['rate', 'dispute_rate'] : undefined;
  }

  violation(agent, rule, document, at) {
    const all = this.agents.get(agent)?.violations ?? [];
    const noted = all.some((v) => v.document === document && v.rule !== 'malicious');
    const today = all.filter((v) => v.at > at - DAY).length;
    return noted || today >= 8 ? undefined : { at, violation: { agent_id: agent, rule, document } };
  }
}

function checkTime(document, now) {
  refuseIf(document.timestamp && Math.abs(now - document.timestamp) > 300, 'clock_skew');
}
