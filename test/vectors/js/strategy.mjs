// Strategies of challenges: what they are, their commitments, and whether a session kept to one.
import { canonical, strictJSON } from './canonical.mjs';
import { byBytes } from './numbers.mjs';
import { Refusal, bytesIn, hash, refuseIf } from './refusal.mjs';

const NONCES = 64;
const HASHES = 4;
const LISTED_HOSTED = 8;
const PREDICATES = ['tools', 'hosts', 'model', 'calls'];

const isText = (v) => typeof v === 'string' && bytesIn(v) >= 1 && bytesIn(v) <= 128;
const isList = (v) => Array.isArray(v) && v.length <= 64 && v.every((text, i) => isText(text) && (i === 0 || byBytes(v[i - 1], text) < 0));
const members = (v, names) => v !== null && typeof v === 'object' && !Array.isArray(v) && Object.keys(v).sort().join() === names;

function sound(s) {
  if (!members(s, 'calls,hosts,model,tools') || !isList(s.tools) || !isList(s.hosts) || !isText(s.model) || !members(s.calls, 'max,min')) return false;
  const { min, max } = s.calls;
  return Number.isInteger(min) && Number.isInteger(max) && min >= 1 && min <= max && max <= 1e6;
}

function soundSalt(salt) {
  const bytes = Buffer.from(salt, 'base64url');
  return bytes.toString('base64url') === salt && bytes.length >= 16 && bytes.length <= 64;
}

export function parseStrategy(text) {
  try {
    return strictJSON(Buffer.from(text));
  } catch (error) {
    throw error instanceof Refusal ? new Refusal('query_malformed') : error;
  }
}

export function commitment(nonce, salt, strategy) {
  refuseIf(!sound(strategy) || !soundSalt(salt), 'query_malformed');
  return hash(canonical({ nonce, salt, strategy }));
}

/** The commitment of a revealed value; nothing for an impossible one. */
function revealed({ nonce, salt, strategy }) {
  return salt !== undefined && strategy !== undefined && sound(strategy) && soundSalt(salt) ? commitment(nonce, salt, strategy) : undefined;
}

/** The nonces of the receipts that are followed, each with its commitment hashes. */
function followed(receipts) {
  const nonces = new Map();
  for (const { challenge: { challenge_nonce: nonce, commitment_hash: commits } = {} } of receipts) {
    if (nonce === undefined) continue;
    if (!nonces.has(nonce) && nonces.size < NONCES) nonces.set(nonce, new Set());
    const hashes = nonces.get(nonce);
    if (hashes && commits && hashes.size < HASHES) hashes.add(commits);
  }
  return nonces;
}

/** Which of the four predicates hold for the receipts of a trace. */
function holding(strategy, trace) {
  const calls = trace.map((r) => r.model_call).filter(Boolean);
  if (calls.length === 0) return [];
  const relayed = trace.flatMap((r) => r.relayed ?? []);
  const allListed = trace.every((r) => (r.relayed_count ?? 0) <= (r.relayed ?? []).length);
  const measured = (r) => r.model_call?.figures?.tool_calls_made;
  const toolsKnown = trace.filter((r) => r.model_call).every((r) => {
    const { tool_calls: made = [], hosted_tools: hosted = [] } = r.model_call;
    if (hosted.length >= LISTED_HOSTED || made.some((call) => !call.tool)) return false;
    return measured(r) ? measured(r).value <= made.length : r.outcome === 'failed';
  });
  const tools = [...calls.flatMap((c) => [...(c.tool_calls ?? []).map((t) => t.tool), ...(c.hosted_tools ?? [])]), ...relayed.map((r) => r.tool)];
  const hosts = [...calls.map((c) => c.host), ...relayed.map((r) => r.host)];
  const holds = {
    tools: toolsKnown && allListed && tools.every((tool) => strategy.tools.includes(tool)),
    hosts: allListed && hosts.every((host) => strategy.hosts.includes(host)),
    model: calls.every((c) => (c.model ?? '') === strategy.model),
    calls: calls.length >= strategy.calls.min && calls.length <= strategy.calls.max,
  };
  return PREDICATES.filter((name) => holds[name]);
}

/** Holds each challenge of a session against its receipts: how many passed, were committed to, and how many predicates held. */
export function judgeChallenges(challenges, receipts) {
  const nonces = followed(receipts);
  const out = { issued: challenges.length, passed: 0, committed: 0, held: 0 };
  for (const c of challenges) {
    if (!c.commitment_hash) continue;
    out.committed++;
    const names = (r) => r.challenge?.challenge_nonce === c.nonce && r.challenge.commitment_hash === c.commitment_hash;
    const shown = receipts.some((r) => names(r) && r.challenge.commitment_revealed);
    if (!nonces.get(c.nonce)?.has(c.commitment_hash) || !shown || revealed(c) !== c.commitment_hash) continue;
    const held = holding(c.strategy, receipts.slice(receipts.findIndex(names))).length;
    out.held += held;
    const between = receipts.some((r) => r.model_call && (
      (r.timing.request_received_ms >= c.issued_ms && r.timing.request_received_ms < c.committed_ms) ||
      (r.challenge?.challenge_nonce === c.nonce && !r.challenge.commitment_hash)));
    if (held === PREDICATES.length && !between) out.passed++;
  }
  return out;
}

/** Whether the receipts of a session rule out that a committed strategy was kept to. */
export function broken(challenge, receipts, closed) {
  if (!challenge.strategy || revealed(challenge) !== challenge.commitment_hash) return false;
  const { strategy, nonce, commitment_hash: commits } = challenge;
  const from = receipts.findIndex((r) => r.challenge?.challenge_nonce === nonce && r.challenge.commitment_hash === commits);
  if (from < 0) return false;
  const trace = receipts.slice(from);
  const calls = trace.map((r) => r.model_call).filter(Boolean);
  const relayed = trace.flatMap((r) => r.relayed ?? []);
  const tools = [...calls.flatMap((c) => [...(c.tool_calls ?? []).map((t) => t.tool), ...(c.hosted_tools ?? [])]), ...relayed.map((r) => r.tool)];
  const hosts = [...calls.map((c) => c.host), ...relayed.map((r) => r.host)];
  const beyond = (names, list) => names.some((name) => name && !list.includes(name));
  return beyond(tools, strategy.tools) || beyond(hosts, strategy.hosts) || beyond(calls.map((c) => c.model), [strategy.model]) ||
    calls.length > strategy.calls.max || (closed && calls.length < strategy.calls.min);
}
