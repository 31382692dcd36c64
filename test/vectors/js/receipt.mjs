// The claims of an interaction receipt, with the types of claims.mjs.
import { bytesIn, isHash } from './refusal.mjs';

const figure = { state: 's', value: 'i' };
const OBSERVED = [
  'duration_ms', 'ttft_ms', 'turnaround_ms', 'deltas', 'input_bytes', 'output_bytes', 'new_input_words', 'output_words', 'tool_calls_made',
  'unmatched_results', 'self_references', 'depth_relayed', 'sample_bytes', 'word_entropy_millibits', 'compression_permille',
];
const TOKENS = ['input_tokens', 'output_tokens'];
const DECLARED = ['cached_tokens', 'reasoning_tokens', 'hosted_calls', 'depth'];
const figures = Object.fromEntries([...OBSERVED, ...TOKENS, ...DECLARED].map((name) => [name, figure]));

export const receipt = {
  request_id: 's', action_type: 's', policy_id: 's', inputs_commitment: 's', constraints_commitment: 's', llm_commitment: 's', output_clean_hash: 's',
  output_transport_hash: 's',
  timing: { request_received_ms: 'i', 'llm_start_ms?': 'i', 'llm_end_ms?': 'i', 'response_sent_ms?': 'i' },
  chain: { 'previous_receipt_hash?': 's', session_id: 's', sequence_number: 'i' },
  'challenge?': { challenge_nonce: 's', 'commitment_hash?': 's', 'commitment_revealed?': 'b' },
  owner: 's', agent: 's', runtime_id: 's', event_id: 's', 'enforcement?': 't', outcome: 's',
  'model_call?': {
    api: 's', host: 's', rule: 's', 'model?': 's', 'answered_by?': 's', 'status?': 'i', streamed: 'b', 'hosted_tools?': 'l', 'unknown_members?': 'l', 'unread?': 's',
    'tool_calls?': [{ 'id?': 's', 'tool?': 's', 'arguments?': 's' }], 'returned_calls?': 'l', 'probe?': { id: 's', 'answer?': 's' }, figures,
  },
  'post?': { binding_hash: 's', 'status?': 'i', artifacts: [{ name: 's', hash: 's' }] },
  'closing?': { reason: 's' },
  'relayed?': [{ host: 's', tool: 's', 'arguments?': 's', 'call_id?': 's' }],
  relayed_count: 'i',
  session: { opened_ms: 'i', calls: 'i', calls_observed: 'i', bytes_out: 'i', bytes_out_observed: 'i' },
  observed: 'l', probabilistic: 'b', nonHumanIdentityProven: 'b',
};

const ALWAYS = [
  'chain', 'constraints_commitment', 'event_id', 'inputs_commitment', 'llm_commitment', 'outcome', 'output_clean_hash', 'output_transport_hash',
  'policy_id', 'relayed', 'relayed_count', 'request_id', 'session', 'timing',
];
const OF_MODEL = ['api', 'hosted_tools', 'host', 'returned_calls', 'rule', 'status', 'streamed', 'tool_calls'].map((name) => `model_call.${name}`);

const within = (bound) => (text) => text !== '' && bytesIn(text) <= bound;
const optional = (test) => (text) => text === undefined || test(text);
const tag = (text) => /^[0-9a-f]{32}$/.test(text);
const status = (n) => n === undefined || (n >= 100 && n <= 999);
const name = within(128);
const short = within(64);

/** Whether well-typed claims make a receipt. */
export function soundReceipt(c) {
  const { chain: link, timing: t, session: s } = c;
  const about = [c.model_call, c.post, c.closing].filter((part) => part !== undefined);
  if (about.length !== 1 || c.exp - c.iat !== 600 || !c.probabilistic || c.nonHumanIdentityProven) return false;
  const observed = [...ALWAYS, ...(c.model_call ? [...OF_MODEL, ...(c.model_call.unknown_members?.length ? ['model_call.unknown_members'] : [])] : c.post ? ['post'] : ['closing']), ...(c.challenge ? ['challenge'] : []), ...(['isolated', 'guard'].includes(c.enforcement) ? ['enforcement'] : [])].sort();
  if (!soundEnforcement(c.enforcement) || JSON.stringify(observed) !== JSON.stringify(c.observed)) return false;
  if (c.owner.length !== 43 || link.sequence_number < 1 || (link.sequence_number === 1) !== (link.previous_receipt_hash === undefined)) return false;
  const hashes = [c.policy_id, c.inputs_commitment, c.constraints_commitment, c.llm_commitment, c.output_clean_hash, c.output_transport_hash];
  if (![...hashes, link.previous_receipt_hash ?? hashes[0]].every(isHash)) return false;
  if (![c.request_id, c.runtime_id, link.session_id].every(name) || ![c.agent, c.event_id].every(within(256)) || !short(c.keyCustody)) return false;
  const moments = [t.request_received_ms, t.llm_start_ms, t.llm_end_ms, t.response_sent_ms].filter((at) => at !== undefined);
  if (moments[0] <= 0 || moments.some((at, i) => i > 0 && at < moments[i - 1]) || Math.floor(moments.at(-1) / 1000) > c.iat) return false;
  if (c.challenge && !soundChallenge(c.challenge)) return false;
  const relayed = c.relayed ?? [];
  if (c.relayed_count < 0 || relayed.length !== Math.min(4, c.relayed_count)) return false;
  if (!relayed.every((r) => name(r.host) && name(r.tool) && optional(tag)(r.arguments) && optional(tag)(r.call_id))) return false;
  const counted = s.calls_observed >= 0 && s.calls_observed <= s.calls && s.bytes_out_observed >= 0 && s.bytes_out_observed <= s.bytes_out;
  if (s.opened_ms <= 0 || !counted) return false;
  if (c.post) return c.action_type === 'compose_post' && ['completed', 'failed', 'indeterminate'].includes(c.outcome) && soundPost(c.post);
  if (c.closing) return c.action_type === 'generic' && c.outcome === 'completed' && ['ended', 'shutdown', 'lost'].includes(c.closing.reason);
  return ['generic', 'challenge_response', 'confidential_llm_call'].includes(c.action_type) && soundModel(c.model_call, c.outcome);
}

function soundChallenge({ challenge_nonce: nonce, commitment_hash: commitment, commitment_revealed: revealed }) {
  return name(nonce) && optional(isHash)(commitment) && (!revealed || commitment !== undefined);
}

function soundPost({ binding_hash: binding, status: code, artifacts }) {
  const names = artifacts.map((a) => a.name);
  const listed = artifacts.length >= 1 && artifacts.length <= 16 && new Set(names).size === names.length;
  return listed && isHash(binding) && status(code) && artifacts.every((a) => short(a.name) && isHash(a.hash));
}

function soundModel(m, outcome) {
  if (!['completed', 'failed', 'unfinished', 'cut', 'left', 'indeterminate', 'not_measured'].includes(outcome)) return false;
  if (m.unread === undefined ? outcome === 'not_measured' : !['not_measured', 'failed'].includes(outcome)) return false;
  const { tool_calls: calls = [], returned_calls: returned = [], hosted_tools: hosted = [], unknown_members: unknown = [] } = m;
  const lists = hosted.length + unknown.length <= 8 && [...hosted, ...unknown].every(short) && returned.length <= 32 && returned.every(tag) && new Set(returned).size === returned.length;
  const made = calls.length === Math.min(16, m.figures.tool_calls_made.value) && calls.every((c) => optional(tag)(c.id) && optional(tag)(c.arguments) && optional(short)(c.tool));
  const names = short(m.api) && name(m.host) && name(m.rule) && optional(name)(m.model) && optional(name)(m.answered_by) && optional(short)(m.unread) && status(m.status);
  const probe = m.probe === undefined || (name(m.probe.id) && optional(tag)(m.probe.answer));
  return lists && made && names && probe && soundFigures(m.figures);
}

function soundFigures(f) {
  const states = (names, ...of) => names.every((n) => {
    const { state, value } = f[n];
    return value >= 0 && (state === 'not_measured' ? value === 0 : of.includes(state));
  });
  if (!states(OBSERVED, 'observed') || !states(TOKENS, 'declared', 'estimated') || !states(DECLARED, 'declared')) return false;
  const sampled = ['sample_bytes', 'word_entropy_millibits', 'compression_permille'].some((n) => f[n].state !== 'not_measured');
  return !sampled || (f.sample_bytes.state === 'observed' && f.sample_bytes.value >= 4096);
}

/** Whether a claim enforcement has a known value. */
export function soundEnforcement(value) {
  return value === undefined || ['isolated', 'guard', 'pod', 'none'].includes(value);
}

/** Whether a session receipt names the head of a chain as it has to. */
export function soundHead({ headHash, number, openCalls = [] }) {
  const ascending = openCalls.every((id, i) => within(64)(id) && (i === 0 || Buffer.compare(Buffer.from(openCalls[i - 1]), Buffer.from(id)) < 0));
  return number >= 0 && (number === 0 ? headHash === undefined : headHash !== undefined && isHash(headHash)) && openCalls.length <= 128 && ascending;
}
