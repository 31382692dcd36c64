// The formulas' view of a session's receipts: its answered calls, each in the light of earlier ones.
import { bytesIn } from './refusal.mjs';
import { byBytes } from './numbers.mjs';

const LONGEST_HOST = 128;
const MEASURED = ['observed', 'declared'];

/** A session of receipts, in their order, with the hosts that are believed. */
export function measureSession(receipts, believed, formulas) {
  const hosts = believed.filter((host) => bytesIn(host) < LONGEST_HOST);
  const session = { calls: [], models: [], otherCalls: 0, domains: [], hosts: [], receipts };
  const made = new Map(); // tool calls by their ids
  const tools = new Set(); // tools with arguments that were called
  let previous; // the last model call: its answered call, or null
  let clean = true;
  const called = new Set();
  for (const receipt of receipts) {
    const { model_call: model } = receipt;
    const trusted = model && hosts.includes(model.host);
    if (trusted) called.add(model.host);
    let call = null;
    if (trusted && ['completed', 'unfinished'].includes(receipt.outcome)) {
      call = answered(receipt, previous, clean);
      call.model = modelOf(session, call, formulas);
      call.returned = (model.returned_calls ?? []).filter((id) => made.has(id)).map((id) => made.get(id));
      call.index = session.calls.length;
      session.calls.push(call);
    } else if (model) {
      session.otherCalls++;
    }
    addDomains(session, receipt, call, formulas.knowledge.domains.most);
    if (call) makeTools(call, made, tools);
    if (!model) continue;
    previous = call;
    if (!trusted) clean = false;
  }
  session.hosts = [...called].sort(byBytes);
  return session;
}

/** The value and the state of a figure, if it is measured. */
function figure(model, name) {
  const found = model.figures?.[name];
  return found && MEASURED.includes(found.state) ? found : undefined;
}

function answered(receipt, previous, clean) {
  const { model_call: model, timing } = receipt;
  const get = (name) => figure(model, name);
  const [duration, tokens, turnaround, bytes, entropy, compression] =
    ['duration_ms', 'output_tokens', 'turnaround_ms', 'sample_bytes', 'word_entropy_millibits', 'compression_permille'].map(get);
  return {
    host: model.host, name: model.model ?? '', start: timing.request_received_ms, end: timing.llm_end_ms ?? timing.request_received_ms,
    duration: duration?.value, toolCalls: model.tool_calls ?? [], probe: model.probe, clean,
    tokens: duration?.value >= 1 && tokens?.value >= 1 ? { count: tokens.value, duration: duration.value, states: [tokens.state, duration.state] } : undefined,
    gap: turnaround && previous ? { ms: turnaround.value, words: previous.words, states: [turnaround.state] } : undefined,
    words: get('output_words')?.value, selfReferences: clean ? get('self_references') : undefined, depth: clean ? get('depth_relayed') : undefined,
    sample: bytes && entropy && compression ? { bytes: bytes.value, entropy: entropy.value, compression: compression.value } : undefined,
  };
}

/** The model of a call among those that are told apart. */
function modelOf(session, { host, name }, formulas) {
  const found = session.models.find((m) => m.host === host && m.model === name);
  if (found || session.models.length === formulas.session.models) return found;
  session.models.push({ host, model: name });
  return session.models.at(-1);
}

/** Notes the tool calls of an answer; of an id twice the first counts. */
function makeTools(call, made, tools) {
  for (const { id, tool, arguments: args } of call.toolCalls) {
    const named = `${args} ${tool}`;
    const fresh = Boolean(id && tool && args) && !tools.has(named);
    if (tool && args) tools.add(named);
    if (id && !made.has(id)) made.set(id, { by: call.index, tool, fresh });
  }
}

/** Notes the domains of a receipt, each with the calls that it belongs to. */
function addDomains(session, receipt, call, most) {
  const found = (receipt.relayed ?? []).map((r) => `host:${r.host}`);
  for (const { tool } of call?.returned ?? []) if (tool) found.push(`tool:${tool}`);
  for (const name of found) {
    let domain = session.domains.find((d) => d.name === name);
    if (!domain && session.domains.length < most) session.domains.push(domain = { name, calls: new Set() });
    domain?.calls.add(Math.max(0, session.calls.length - 1)); // the last call up to here, or the first that will come
  }
}
