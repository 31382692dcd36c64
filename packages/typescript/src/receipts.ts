// Interaction receipts: what one says, and the chain of a session's receipts.
import { isHash, tokenHash } from './bytes.js';
import { type Claims, type Kind, type Shape, key, kind, texts, unverified, within } from './claims.js';
import { Refusal, refuse, refuseIf } from './refusal.js';

const LIFETIME = 600;
const MAX_RECEIPTS = 1 << 17;

const figures: Record<'observed' | 'tokens' | 'declared', string[]> = {
  observed: ['duration_ms', 'ttft_ms', 'turnaround_ms', 'deltas', 'input_bytes', 'output_bytes', 'new_input_words',
    'output_words', 'tool_calls_made', 'unmatched_results', 'self_references', 'depth_relayed', 'sample_bytes',
    'word_entropy_millibits', 'compression_permille'],
  tokens: ['input_tokens', 'output_tokens'],
  declared: ['cached_tokens', 'reasoning_tokens', 'hosted_calls', 'depth'],
};
const figure: Shape = { state: 's', value: 'i' };
const model: Shape = {
  ...texts('s', 'api', 'host', 'rule', 'model?', 'answered_by?', 'unread?'), 'status?': 'i', streamed: 'b',
  ...texts('l', 'hosted_tools?', 'unknown_members?', 'returned_calls?'),
  'tool_calls?': [texts('s', 'id?', 'tool?', 'arguments?')], 'probe?': texts('s', 'id', 'answer?'),
  figures: texts(figure, ...Object.values(figures).flat()),
};

export const interactionReceipt: Kind = kind('interaction-receipt', 'interaction_receipt', {
  ...key, ...texts('s', 'request_id', 'action_type', 'policy_id', 'inputs_commitment', 'constraints_commitment',
    'llm_commitment', 'output_clean_hash', 'output_transport_hash', 'owner', 'agent', 'runtime_id', 'event_id',
    'enforcement?', 'outcome'),
  timing: { request_received_ms: 'i', 'llm_start_ms?': 'i', 'llm_end_ms?': 'i', 'response_sent_ms?': 'i' },
  chain: { 'previous_receipt_hash?': 's', session_id: 's', sequence_number: 'i' },
  'challenge?': { challenge_nonce: 's', 'commitment_hash?': 's', 'commitment_revealed?': 'b' },
  'model_call?': model,
  'post?': { binding_hash: 's', 'status?': 'i', artifacts: [{ name: 's', hash: 's' }] }, 'closing?': { reason: 's' },
  'relayed?': [texts('s', 'host', 'tool', 'arguments?', 'call_id?')], relayed_count: 'i',
  session: texts('i', 'opened_ms', 'calls', 'calls_observed', 'bytes_out', 'bytes_out_observed'),
  observed: 'l', probabilistic: 'b', nonHumanIdentityProven: 'b',
}, { lifetime: LIFETIME, check: isSound });

const OBSERVED = ('chain constraints_commitment event_id inputs_commitment llm_commitment outcome output_clean_hash ' +
  'output_transport_hash policy_id relayed relayed_count request_id session timing').split(' ');
const OBSERVED_OF_MODEL = ('api hosted_tools host returned_calls rule status streamed tool_calls').split(' ')
  .map((name) => `model_call.${name}`);

/** The claims of a receipt that its mediator saw itself. */
function observedOf(c: Claims): string[] {
  const unknown = c.model_call?.unknown_members?.length > 0 ? ['model_call.unknown_members'] : [];
  return [
    ...OBSERVED,
    ...(c.model_call ? [...OBSERVED_OF_MODEL, ...unknown] : c.post ? ['post'] : c.closing ? ['closing'] : []),
    ...(c.challenge ? ['challenge'] : []),
    ...(['isolated', 'guard'].includes(c.enforcement) ? ['enforcement'] : []),
  ].sort();
}

/** A tag is half as long as a hash. */
const isTag = (text?: string): boolean => text === undefined || isHash(text + text);
const status = (code?: number): boolean => code === undefined || (code >= 100 && code <= 999);
const atMost = (text: string | undefined, most: number): boolean => text === undefined || within(text, most);

function isSound(c: Claims): boolean {
  const { chain, session: s, timing: t, challenge, relayed = [] } = c;
  const number: number = chain.sequence_number;
  const moments = [t.request_received_ms, t.llm_start_ms, t.llm_end_ms, t.response_sent_ms]
    .filter((at) => at !== undefined && at !== 0);
  return c.exp - c.iat === LIFETIME && c.probabilistic && !c.nonHumanIdentityProven &&
    c.observed.join() === observedOf(c).join() && c.owner.length === 43 &&
    number >= 1 && (number === 1) === (chain.previous_receipt_hash === undefined) &&
    [c.policy_id, c.inputs_commitment, c.constraints_commitment, c.llm_commitment, c.output_clean_hash,
      c.output_transport_hash, ...(number > 1 ? [chain.previous_receipt_hash] : [])].every(isHash) &&
    [undefined, 'isolated', 'guard', 'pod', 'none'].includes(c.enforcement) && within(c.keyCustody, 64) &&
    within(c.request_id, 128) && within(c.agent, 256) && within(c.runtime_id, 128) && within(c.event_id, 256) &&
    within(chain.session_id, 128) && isAboutOne(c) &&
    t.request_received_ms > 0 && moments.every((at, i) => i === 0 || at >= moments[i - 1]) &&
    Math.trunc(moments.at(-1)! / 1000) <= c.iat &&
    (!challenge || ((challenge.commitment_hash === undefined || isHash(challenge.commitment_hash)) &&
      (!challenge.commitment_revealed || challenge.commitment_hash) && within(challenge.challenge_nonce, 128))) &&
    relayed.length <= 4 && relayed.length <= c.relayed_count &&
    (relayed.length === 4 || relayed.length === c.relayed_count) && relayed.every((r: Claims) =>
      within(r.host, 128) && within(r.tool, 128) && isTag(r.arguments) && isTag(r.call_id)) &&
    s.opened_ms > 0 && s.calls_observed >= 0 && s.calls_observed <= s.calls && s.bytes_out_observed >= 0 &&
    s.bytes_out_observed <= s.bytes_out;
}

function isAboutOne(c: Claims): boolean {
  const { model_call: m, post, closing } = c;
  if ([m, post, closing].filter((part) => part !== undefined).length !== 1) return false;
  if (post) {
    const names: string[] = post.artifacts.map(({ name }: Claims) => name);
    return c.action_type === 'compose_post' && ['completed', 'failed', 'indeterminate'].includes(c.outcome) &&
      isHash(post.binding_hash) && status(post.status) && names.length > 0 && names.length <= 16 &&
      new Set(names).size === names.length && names.every((name) => within(name, 64)) &&
      post.artifacts.every(({ hash }: Claims) => isHash(hash));
  }
  if (closing) {
    return c.action_type === 'generic' && c.outcome === 'completed' &&
      ['ended', 'shutdown', 'lost'].includes(closing.reason);
  }
  const { hosted_tools: hosted = [], unknown_members: unknown = [], tool_calls: calls = [],
    returned_calls: returned = [] } = m;
  return ['generic', 'challenge_response', 'confidential_llm_call'].includes(c.action_type) &&
    ['completed', 'failed', 'unfinished', 'cut', 'left', 'indeterminate', 'not_measured'].includes(c.outcome) &&
    status(m.status) && (m.unread === undefined ? c.outcome !== 'not_measured'
      : ['not_measured', 'failed'].includes(c.outcome)) &&
    hosted.length + unknown.length <= 8 && calls.length <= 16 && returned.length <= 32 &&
    calls.length === Math.min(m.figures.tool_calls_made.value, 16) && within(m.api, 64) && within(m.host, 128) &&
    within(m.rule, 128) && atMost(m.model, 128) && atMost(m.answered_by, 128) && atMost(m.unread, 64) &&
    (!m.probe || (isTag(m.probe.answer) && within(m.probe.id, 128))) && areSound(m.figures) &&
    new Set(returned).size === returned.length && returned.every(isTag) &&
    [...hosted, ...unknown].every((name: string) => within(name, 64)) &&
    calls.every((call: Claims) => isTag(call.id) && isTag(call.arguments) && atMost(call.tool, 64));
}

function areSound(f: Claims): boolean {
  const known: Record<string, string[]> = {
    observed: ['observed'], tokens: ['declared', 'estimated'], declared: ['declared'],
  };
  const sample = f.sample_bytes.state === 'observed' && f.sample_bytes.value >= 4096;
  return Object.entries(figures).every(([how, names]) => names.every((name) => {
    const { state, value } = f[name];
    return state === 'not_measured' ? value === 0 : known[how]!.includes(state) && value >= 0;
  })) && (sample || ['sample_bytes', 'word_entropy_millibits', 'compression_permille']
    .every((name) => f[name].state === 'not_measured'));
}

/** Opens a receipt, whose claims are c if its signature is right. */
export type Opener = (token: string, c: Claims) => Promise<Claims>;

const broken = (why: string): never => refuse('chain_broken', why);

/** One session's receipts from the first on, in order. */
export class Chain {
  private readonly hashes: string[] = [];
  private readonly numbers = new Map<string, number>();
  last: Claims | undefined;

  constructor(private readonly open: Opener, private readonly owner: string, private readonly session: string,
    private readonly agent: string) {}

  get length(): number {
    return this.hashes.length;
  }

  /** Verifies the next receipt. After a refusal the chain is unchanged. */
  async add(token: string): Promise<Claims> {
    const unopened = await unverified(interactionReceipt, token);
    refuseIf(this.owner === '' || this.owner !== unopened.owner, 'roots_not_pinned',
      'the receipt names another owner than the pinned key registry');
    const r = await this.open(token, unopened);
    this.follows(r);
    this.hashes.push(await tokenHash(token));
    this.numbers.set(r.request_id, r.chain.sequence_number);
    this.last = r;
    return r;
  }

  private follows(r: Claims): void {
    const { sequence_number: number, session_id: session, previous_receipt_hash: before } = r.chain;
    const { last } = this;
    const wanted = { session: last?.chain.session_id ?? this.session, agent: last?.agent ?? this.agent };
    if (wanted.session !== '' && wanted.session !== session) broken('the receipt belongs to another session');
    if (wanted.agent !== '' && wanted.agent !== r.agent) broken('the receipt is about another agent');
    if (last?.closing) broken(`receipt ${number} follows the one that closes the session`);
    refuseIf(this.length === MAX_RECEIPTS, 'session_full', 'the chain is full');
    refuseIf(number > this.length + 1, 'chain_incomplete', `receipts before receipt ${number} are missing`);
    if (number <= this.length) broken(`receipt ${number} comes twice, or out of order`);
    if (last && before !== this.hashes.at(-1)) broken(`receipt ${number} does not name the one before it`);
    if (this.numbers.has(r.request_id)) broken('two receipts are about one call');
    if (!last) return;
    const [was, now] = [last.session, r.session];
    if (r.event_id !== last.event_id || r.runtime_id !== last.runtime_id || now.opened_ms !== was.opened_ms ||
      r.iat < last.iat || now.calls < was.calls || now.calls_observed < was.calls_observed ||
      now.bytes_out < was.bytes_out || now.bytes_out_observed < was.bytes_out_observed) {
      broken(`receipt ${number} contradicts the one before it`);
    }
  }

  /** Refuses a session receipt's claim about the chain, which may have grown since. */
  names({ number, headHash = '', openCalls = [] }: Claims): void {
    const none = number === 0 && headHash === '';
    if (!none && !(number > 0 && headHash !== '' && this.hashes[number - 1] === headHash)) {
      broken(`the session receipt names receipt ${number}, which is not in the chain`);
    }
    for (const id of openCalls as string[]) {
      const ended = this.numbers.get(id);
      if (ended === undefined ? this.last?.closing : ended <= number) {
        broken(`the session receipt says that the call ${id} was open, and its receipt contradicts that`);
      }
    }
  }
}

/** Whether an error is a refusal with a code. */
export const isCode = (error: unknown, code: string): boolean => error instanceof Refusal && error.code === code;
