// What loses a dispute that receipts decide. See docs/disputes.md.
import { canonical } from './canonical.mjs';
import { hash } from './refusal.mjs';
import { broken } from './strategy.mjs';

const SLACK = 30_000; // milliseconds
const CALLER_SLACK = 150_000;
const MIN_PAIRS = 3;
const MAX_BROUGHT = 16;
const MAX_INPUTS = 48;
const FORKED = 'chain_forked';

/** The finding of a trial; nothing if it does not end before the deadline. */
export function judge({ challenge_type: type, target_receipts: targets, sessions, forged = [], judged = [] }, late) {
  const missing = new Set(targets);
  const inputs = [];
  let open = false;
  let doubt = '';
  let found = '';
  let fault;
  for (const session of sessions) {
    const chain = chainOf(session.receipts);
    for (const { hash: name } of chain) missing.delete(name);
    const closed = chain.at(-1)?.receipt.closing !== undefined;
    const forks = (session.others ?? []).filter(({ hash: name, receipt }) => {
      const number = receipt.chain.sequence_number;
      if (judged.includes(name)) {
        missing.delete(name);
        return false;
      }
      return number <= chain.length ? chain[number - 1].hash !== name : closed;
    }).map((o) => o.hash);
    for (const name of forks) missing.delete(name);
    const challenges = session.challenges ?? [];
    if (chain.length > 0) inputs.push(chain.at(-1).hash);
    if (challenges.length > 0) inputs.push(hash(canonical(challenges)));
    inputs.push(...forks.slice(0, Math.max(0, MAX_BROUGHT - forged.length)));
    const counted = chain.findLastIndex((h) => judged.includes(h.hash)) + 1; // how many receipts of the chain count no more
    const [reason, unsure] = rules[type]({ receipts: chain.map((h) => h.receipt), chain, counted, challenges, closed, forked: forks.length > 0 });
    if (!closed) open = true;
    if (!found && reason && (closed || late || type !== 'knowledge')) {
      found = reason;
      fault = chain[counted]?.hash;
    }
    doubt ||= (forks.length > 0 ? FORKED : '') || unsure;
  }
  const listed = (names) => (names.length > 0 ? { inputs: [...new Set(names.sort())].slice(0, MAX_INPUTS) } : {});
  if (found) return { outcome: 'challenger_wins', reason: found, ...(fault ? { fault } : {}), ...listed(inputs) };
  const named = listed([...inputs, ...forged.slice(0, MAX_BROUGHT)]);
  const undecided = (reason) => ({ outcome: 'inconclusive', reason, ...named });
  if (missing.size > 0) return late ? undecided('receipts_missing') : undefined;
  if (open) return late ? undecided('session_open') : undefined;
  if (doubt) return undecided(doubt);
  return { outcome: 'target_wins', reason: 'nothing_found', ...(forged.length > 0 ? { malicious: true } : {}), ...named };
}

/** The receipts of a chain up to the first gap. */
function chainOf(held) {
  const chain = [];
  for (const h of held) if (h.receipt.chain.sequence_number === chain.length + 1) chain.push(h);
  return chain;
}

const rules = {
  timing({ receipts: all, counted, challenges }) {
    const receipts = all.slice(counted);
    for (const r of receipts) {
      const reason = impossible(r, challenges);
      if (reason) return [reason, ''];
    }
    const calls = receipts.filter(isSent);
    const asked = new Map();
    for (const { model_call: m, timing: t } of calls) {
      for (const { id } of m.tool_calls ?? []) if (id) asked.set(id, Math.min(t.llm_start_ms, asked.get(id) ?? Infinity));
    }
    const early = calls.some(({ model_call: m, timing: t }) => (m.returned_calls ?? []).some((id) => t.llm_start_ms + SLACK < asked.get(id)));
    if (early) return ['result_before_call', ''];
    const overlaps = calls.some((r) => observed(r, 'turnaround_ms') !== undefined && calls.some(({ timing: t }) =>
      t.llm_end_ms && t.llm_start_ms <= r.timing.request_received_ms - SLACK && t.llm_end_ms >= r.timing.llm_start_ms + SLACK));
    return [overlaps ? 'calls_overlap' : '', ''];
  },

  consistency({ receipts, chain, counted, challenges, closed, forked }) {
    if (receipts.some((r, i) => i > 0 && i >= counted && contradicts(receipts[i - 1], chain[i - 1].hash, r))) return ['chain_broken', ''];
    if (forked) return [FORKED, ''];
    const calls = receipts.filter((r) => r.model_call);
    const made = new Set(calls.flatMap(({ model_call: m }) => (m.tool_calls ?? []).map((t) => t.id)));
    const returned = receipts.slice(counted).filter((r) => r.model_call).flatMap(({ model_call: m }) => m.returned_calls ?? []);
    if (closed && calls.every(allNamed) && returned.some((id) => !made.has(id))) return ['result_without_call', ''];
    if (challenges.some((c) => broken(c, receipts, closed) && !broken(c, receipts.slice(0, counted), false))) return ['strategy_broken', ''];
    return ['', challenges.some((c) => c.commitment_hash && !c.strategy) ? 'strategy_hidden' : ''];
  },

  knowledge({ receipts, counted, challenges }) {
    const answers = new Map();
    for (const { model_call: m } of receipts.slice(counted)) {
      if (m?.probe?.answer && !answers.has(m.probe.id)) answers.set(m.probe.id, m.probe.answer);
    }
    const pairs = challenges.flatMap((c) => c.probes ?? []).map((pair) => pair.map((id) => answers.get(id))).filter((pair) => pair.every(Boolean));
    const differ = pairs.filter(([a, b]) => a !== b).length;
    if (pairs.length < MIN_PAIRS) return ['', 'probes_unanswered'];
    if (2 * differ > pairs.length) return ['probes_disagree', ''];
    return ['', differ > 0 ? 'probes_divided' : ''];
  },
};

const isSent = (r) => r.model_call && r.timing?.llm_start_ms;

/** The value of a figure that was observed. */
function observed(receipt, name) {
  const figure = receipt.model_call?.figures?.[name];
  return figure?.state === 'observed' ? figure.value : undefined;
}

/** Why a receipt by itself cannot be. */
function impossible(r, challenges) {
  const nonce = r.challenge?.challenge_nonce;
  if (challenges.some((c) => c.nonce === nonce && r.iat * 1000 + CALLER_SLACK < c.issued_ms)) return 'challenge_before_issue';
  if (!isSent(r)) return '';
  const { llm_start_ms: start, llm_end_ms: end } = r.timing;
  const [duration, first, turnaround] = ['duration_ms', 'ttft_ms', 'turnaround_ms'].map((name) => observed(r, name));
  if (end && duration > end - start + SLACK) return 'duration_impossible';
  if (first > duration) return 'first_delta_impossible';
  return turnaround > start - r.session.opened_ms + SLACK ? 'turnaround_impossible' : '';
}

const FALLING = ['calls', 'calls_observed', 'bytes_out', 'bytes_out_observed'];

function contradicts(before, name, r) {
  const other = r.chain.previous_receipt_hash !== name || before.closing || r.event_id !== before.event_id || r.runtime_id !== before.runtime_id;
  const [was, is] = [before.session ?? {}, r.session ?? {}];
  return Boolean(other) || is.opened_ms !== was.opened_ms || r.iat < before.iat || FALLING.some((count) => (is[count] ?? 0) < (was[count] ?? 0));
}

/** Whether a receipt names all calls of tools that its answer has made. */
function allNamed({ outcome, timing, model_call: { tool_calls: calls = [], figures = {} } }) {
  const made = figures.tool_calls_made;
  if (calls.some((call) => !call.id)) return false;
  if (outcome === 'failed' && !timing?.llm_end_ms) return !(made?.value > calls.length);
  return made?.state === 'observed' && made.value <= calls.length;
}
