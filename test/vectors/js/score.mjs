// The claims of an autonomy score, with the types of claims.mjs.
import { readFileSync } from 'node:fs';
import { canonicalText } from './canonical.mjs';
import { byBytes, sum } from './numbers.mjs';
import { bytesIn, hash, isHash } from './refusal.mjs';

const signal = { score: 'd', state: 's', parts: [{ name: 's', of: 'd', points: 'd', value: 'd', n: 'i', state: 's' }] };

export const score = {
  owner: 's', agent: 's', session_id: 's', headHash: 'h', headNumber: 'i', closed: 'b', scoringVersion: 's', scoringHash: 'h', 'baselineHash?': 's',
  score: 'd', seedWeighted: 'd', band: 's', n: 'i', otherCalls: 'i', modelHosts: 'l', nonHumanIdentityProven: 'b', probabilistic: 'b',
  interval: { level: 'd', lower: 'd', upper: 'd', leave_out: 'm' },
  coverage: { calls: 'i', calls_observed: 'i', bytes_out: 'i', bytes_out_observed: 'i', share: 'd' },
  signals: {
    timing: { ...signal, llm_latency_ms: 'd', tokens_per_second: 'd', latency_variance: 'd' },
    recursion: { ...signal, chain_length: 'd', self_references: 'd', reasoning_depth: 'd' },
    knowledge: { ...signal, domains_touched: 'l', consistency_score: 'd', superhuman_indicators: 'd' },
    entropy: { ...signal, session_duration_ms: 'd', interaction_count: 'i', response_entropy: 'd', fatigue_indicators: 'd' },
    challenge: { ...signal, challenges_issued: 'i', challenges_passed: 'i', commitment_accuracy: 'd' },
  },
};

const source = readFileSync(new URL('../../../reputation/autonomy/formulas.json', import.meta.url));
const formulas = JSON.parse(source);
const ours = hash(canonicalText(source));

const TOLERANCE = 1e-6;
const STATES = ['observed', 'declared', 'not_measured'];
const near = (a, b) => Math.abs(a - b) <= TOLERANCE;
const within = (x, most) => x >= 0 && x <= most + TOLERANCE;
const isName = (text) => text !== '' && bytesIn(text) <= 256;

/** Whether well-typed claims make a score. */
export function soundScore(c) {
  const { interval: i, coverage: v, modelHosts: hosts } = c;
  const signals = Object.values(c.signals);
  if (c.nonHumanIdentityProven || !c.probabilistic) return false;
  if (![c.owner, c.agent, c.session_id, c.scoringVersion, c.keyCustody, c.band].every(isName) || (c.baselineHash !== undefined && !isHash(c.baselineHash))) return false;
  if (c.headNumber < 1 || c.n < 0 || c.otherCalls < 0 || c.n + c.otherCalls > c.headNumber) return false;
  if (hosts.length > 32 || !hosts.every((host, at) => host !== '' && bytesIn(host) < 128 && (at === 0 || byBytes(hosts[at - 1], host) <= 0))) return false;
  if (v.calls_observed < 0 || v.calls_observed > v.calls || v.bytes_out_observed < 0 || v.bytes_out_observed > v.bytes_out || !within(v.share, 1)) return false;
  if (!within(c.score, 100) || !within(c.seedWeighted, 100)) return false;
  if (!within(i.level, 1) || !within(i.lower, c.score) || i.upper < c.score - TOLERANCE || !within(i.upper, 100)) return false;
  return signals.every(soundSignal) && (c.scoringHash !== ours || follows(c));
}

function soundSignal({ score: points, state, parts }) {
  const sound = parts.every((p) => isName(p.name) && p.n >= 0 && STATES.includes(p.state) && within(p.points, p.of) &&
    (p.state !== 'not_measured' || (p.points === 0 && p.value === 0)));
  return sound && STATES.includes(state) && near(points, sum(parts.map((p) => p.points)));
}

/** Whether the score follows from its signals by our formulas. */
function follows(c) {
  const { weights, caps, bands } = formulas;
  const names = Object.keys(weights);
  const rounded = Math.floor(c.score * 1e9 + 0.5) / 1e9;
  return near(c.score, 100 * sum(names.map((name) => weights[name] * c.signals[name].score / caps[name]))) &&
    near(c.seedWeighted, sum(names.map((name) => weights[name] * c.signals[name].score))) && c.band === bands.filter((b) => b.from <= rounded).at(-1).name;
}
