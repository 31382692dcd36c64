// The autonomy score of a session, written from docs/autonomy.md ("Formulas") and formulas.json alone.
import { allEqual, byBytes, clamp, determination, greatest, mean, median, sum, variance } from './numbers.mjs';
import { judgeChallenges } from './strategy.mjs';

const NOT_MEASURED = 'not_measured';
const STATES = ['observed', 'declared']; // the strongest first
const weakest = (states) => states.reduce((a, b) => (STATES.indexOf(b) > STATES.indexOf(a) ? b : a), 'observed');

/** The calls of a session that a score is made of: all, or those that are left in while a block is out. */
class View {
  constructor(session, { formulas, challenges, baseline }, left) {
    Object.assign(this, { session, formulas, challenges, baseline });
    this.part = !left;
    this.left = left ?? new Set(session.calls.map((_, i) => i));
    this.calls = session.calls.filter((c) => this.left.has(c.index));
    this.gaps = this.calls.filter((c) => c.gap);
    this.ms = this.gaps.map((c) => c.gap.ms);
  }

  /** Whether so many inputs are enough: while a block is left out, half as many are. */
  enough(n, minimum) {
    return this.part ? n >= minimum : 2 * n >= minimum;
  }

  /** The calls by their models, in the models' order. */
  byModel() {
    return this.session.models.map((model) => ({ model, calls: this.calls.filter((c) => c.model === model) }));
  }

  /** The baseline of a model, if it has the wanted one. */
  usual(model) {
    return this.baseline?.models.find((m) => m.host === model.host && m.model === model.model);
  }

  get duration() {
    return this.calls.length ? Math.max(...this.calls.map((c) => c.end)) - Math.min(...this.calls.map((c) => c.start)) : 0;
  }
}

/** Speeds of calls with enough tokens, in tokens a second. */
export const speedsOf = (calls, formulas) => calls.filter((c) => c.tokens?.count >= formulas.timing.speed.minTokens)
  .map((c) => ({ speed: 1000 * c.tokens.count / c.tokens.duration, states: c.tokens.states }));

/** The class of the size of a sample. */
export function classOf({ bytes }, formulas) {
  let k = 0;
  while (formulas.entropy.text.classBytes * 2 ** (k + 1) <= bytes) k++;
  return k;
}

// Each part takes a view and says how many inputs it has, their states, and its value and share of its points.
const parts = {
  timing: {
    regression(v, { minCalls }) {
      const models = v.byModel().map(({ calls }) => calls.filter((c) => c.tokens)).filter((calls) => v.enough(calls.length, minCalls));
      const n = sum(models.map((calls) => calls.length));
      const fits = models.map((calls) => calls.length * determination(calls.map((c) => c.tokens.count), calls.map((c) => c.tokens.duration)));
      const value = n ? sum(fits) / n : 0;
      return { n, minimum: minCalls, value, share: value, states: models.flat().flatMap((c) => c.tokens.states) };
    },
    speed(v, { minCalls, width, floor }) {
      const judged = v.byModel().flatMap(({ model, calls }) => {
        const usual = v.usual(model)?.speed;
        if (!usual || usual.n < v.formulas.baseline.minSessions) return [];
        const reach = Math.max(width * usual.spread, floor * usual.median);
        return speedsOf(calls, v.formulas).map(({ speed, states }) => ({ inside: Math.abs(speed - usual.median) <= reach, states }));
      });
      const value = judged.length ? judged.filter((j) => j.inside).length / judged.length : 0;
      return { n: judged.length, minimum: minCalls, value, share: value, states: judged.flatMap((j) => j.states) };
    },
    regularity(v, { minGaps, none, full }) {
      const value = v.ms.length === 0 || allEqual(v.ms) ? 0 : Math.sqrt(variance(v.ms)) / mean(v.ms);
      return { n: v.ms.length, minimum: minGaps, value, share: clamp((none - value) / (none - full)) };
    },
  },
  recursion: {
    chain(v, { minCalls, full }) {
      const lengths = [];
      for (const call of v.calls) {
        const before = call.returned.filter(({ by }) => v.left.has(by)).map(({ by, fresh }) => lengths[by] + (fresh ? 1 : 0));
        lengths[call.index] = greatest(before);
      }
      const value = greatest(v.calls.map((c) => lengths[c.index]));
      return { n: v.calls.length, minimum: minCalls, value, share: Math.min(1, Math.log(1 + value) / Math.log(1 + full)) };
    },
    self_references(v, { minCalls }) {
      const measured = v.calls.map((c) => c.selfReferences).filter(Boolean);
      const value = v.calls.length > 1 ? sum(measured.map((f) => f.value)) / (v.calls.length - 1) : 0;
      return { n: measured.length, minimum: minCalls, value, share: Math.min(1, value), states: measured.map((f) => f.state) };
    },
    depth(v, { minCalls, full }) {
      const measured = v.calls.map((c) => c.depth).filter(Boolean);
      const value = greatest(measured.map((f) => f.value));
      return { n: measured.length, minimum: minCalls, value, share: Math.min(1, value / full), states: measured.map((f) => f.state) };
    },
  },
  knowledge: {
    domains(v, { minCalls, full }) {
      const found = domainsOf(v);
      const hosts = found.filter((name) => name.startsWith('host:')).length;
      const states = [hosts >= full || hosts === found.length ? 'observed' : 'declared'];
      return { n: v.calls.length, minimum: minCalls, value: found.length, share: Math.min(1, found.length / full), states };
    },
    agreement(v, { minPairs }) {
      const answers = new Map();
      for (const { probe } of v.session.calls) if (probe?.answer && !answers.has(probe.id)) answers.set(probe.id, probe.answer);
      const pairs = v.challenges.flatMap((c) => c.probes ?? []).map((ids) => ids.map((id) => answers.get(id))).filter((pair) => pair.every(Boolean));
      const value = pairs.length ? new Set(pairs.filter(([a, b]) => a === b).map(([a]) => a)).size / pairs.length : 0;
      return { n: pairs.length, minimum: minPairs, value, share: value };
    },
    superhuman(v, { minBlocks, full, words: size, wordsPerMinute }) {
      const blocks = [];
      let [words, ms] = [0, 0];
      for (const { gap } of v.gaps) {
        if (gap.words === undefined) continue;
        [words, ms] = [words + gap.words, ms + gap.ms];
        if (words < size) continue;
        blocks.push(words * 60000 > wordsPerMinute * ms);
        [words, ms] = [0, 0];
      }
      const value = blocks.filter(Boolean).length;
      return { n: blocks.length, minimum: minBlocks, value, share: Math.min(1, value / full) };
    },
  },
  entropy: {
    word_entropy: (v, { maxZ }) => text(v, maxZ, 'entropy'),
    compression: (v, { maxZ }) => text(v, maxZ, 'compression'),
    endurance(v, { minCalls, calls, durationMs }) {
      const value = Math.min(1, v.calls.length / calls) * Math.min(1, v.duration / durationMs);
      return { n: v.calls.length, minimum: minCalls, value, share: value };
    },
    fatigue(v, rule) {
      const value = Math.min(rule.points, rule.points * slowing(v, rule) + rule.points * quiet(v, rule));
      return { n: v.gaps.length, minimum: rule.minGaps, value, share: (rule.points - value) / rule.points * Math.min(1, v.duration / rule.durationMs) };
    },
  },
  challenge: {
    commitments(v, { z, predicates }) {
      const { issued: k, passed, committed, held } = judgeChallenges(v.challenges, v.session.receipts);
      const rate = passed / k;
      const bound = passed ? (rate + z ** 2 / (2 * k) - z * Math.sqrt(rate * (1 - rate) / k + z ** 2 / (4 * k ** 2))) / (1 + z ** 2 / k) : 0;
      const accuracy = committed ? held / (predicates * committed) : 0;
      return { n: k, minimum: 1, value: bound * accuracy, share: bound * accuracy, states: ['declared'], passed, accuracy };
    },
  },
};

/** The domains of which a call is left in, in the order of their bytes. */
function domainsOf(v) {
  return v.session.domains.filter((d) => [...d.calls].some((i) => v.left.has(i))).map((d) => d.name).sort(byBytes);
}

/** The last sample of each model that has one. */
function samplesOf(v) {
  return v.byModel().map(({ model, calls }) => ({ model, sample: calls.filter((c) => c.sample).at(-1)?.sample })).filter(({ sample }) => sample);
}

function text(v, maxZ, name) {
  const { scale, floor } = v.formulas.entropy.text;
  const judged = samplesOf(v).flatMap(({ model, sample }) => {
    const usual = v.usual(model)?.texts?.find((t) => t.class === classOf(sample, v.formulas));
    if (!usual || usual.n < v.formulas.baseline.minSessions) return [];
    const { median: middle, spread } = usual[name];
    return [{ bytes: sample.bytes, inside: Math.abs(sample[name] - middle) <= maxZ * Math.max(scale * spread, floor * middle) }];
  });
  const value = judged.length ? sum(judged.filter((j) => j.inside).map((j) => j.bytes)) / sum(judged.map((j) => j.bytes)) : 0;
  return { n: judged.length, minimum: 1, value, share: value };
}

/** How much longer the gaps became, from 0 to 1. */
function slowing({ gaps, ms }, { growthNone, growthFull }) {
  const times = gaps.map((c) => c.start);
  const [m, half] = [ms.length, Math.ceil(ms.length / 2)];
  if (m === 0 || times[m - 1] <= times[0]) return 0;
  const slopes = [];
  for (let i = 0; i + half < m; i++) {
    if (times[i + half] > times[i]) slopes.push((ms[i + half] - ms[i]) / (times[i + half] - times[i]));
  }
  const slope = slopes.length ? median(slopes) : 0;
  const growth = slope * (times[m - 1] - times[0]) / Math.max(1, median(ms));
  return clamp((growth - growthNone) / (growthFull - growthNone));
}

/** How long the hours of the day are in which nothing happens, from 0 to 1. */
function quiet(v, { rhythmMinSpanMs, rhythmMinCalls, quietNone, quietFull }) {
  if (v.duration < rhythmMinSpanMs || !v.enough(v.calls.length, rhythmMinCalls)) return 0;
  const busy = new Set(v.calls.map((c) => new Date(c.start).getUTCHours()));
  let [run, longest] = [0, 0];
  for (let hour = 0; hour < 48; hour++) { // twice around the day
    run = busy.has(hour % 24) ? 0 : run + 1;
    longest = Math.max(longest, run);
  }
  return clamp((Math.min(24, longest) - quietNone) / (quietFull - quietNone));
}

/** All parts of a view. While a block is left out, those of the whole say which are measured, and which points stay. */
function partsOf(v, whole) {
  const out = {};
  for (const [signal, rules] of Object.entries(parts)) {
    out[signal] = Object.entries(rules).map(([name, rule]) => {
      const constants = v.formulas[signal][name];
      const before = whole?.[signal].find((p) => p.name === name);
      if (before && (name === 'agreement' || name === 'commitments' || before.state === NOT_MEASURED)) return before;
      const { n, minimum, value, share, states = [], ...more } = rule(v, constants);
      if (!v.enough(n, minimum)) return { name, of: constants.points, points: 0, value: 0, n, state: NOT_MEASURED, ...more };
      return { name, of: constants.points, points: constants.points * share, value, n, state: weakest(states), ...more };
    });
  }
  return out;
}

const pointsOf = (signal) => sum(signal.map((p) => p.points));
const compositeOf = (all, { weights, caps }) => 100 * sum(Object.keys(parts).map((name) => weights[name] * pointsOf(all[name]) / caps[name]));

function intervalOf(session, input, whole, score) {
  const { level, blocks, t } = input.formulas.interval;
  const n = session.calls.length;
  if (n < blocks) return { level, lower: 0, upper: 100, leave_out: [] };
  const leaveOut = Array.from({ length: blocks }, (_, b) => {
    const [from, to] = [Math.floor(b * n / blocks), Math.floor((b + 1) * n / blocks)];
    const left = new Set(session.calls.map((c) => c.index).filter((i) => i < from || i >= to));
    return compositeOf(partsOf(new View(session, input, left), whole), input.formulas);
  });
  const m = mean(leaveOut);
  const se = Math.sqrt((blocks - 1) / blocks * sum(leaveOut.map((x) => (x - m) ** 2)));
  return { level, lower: Math.max(0, score - t * se), upper: Math.min(100, score + t * se), leave_out: leaveOut };
}

function coverageOf(receipts) {
  const { calls = 0, calls_observed = 0, bytes_out = 0, bytes_out_observed = 0 } = receipts.at(-1)?.session ?? {};
  const share = (a, b) => (b === 0 ? 1 : a / b);
  return { calls, calls_observed, bytes_out, bytes_out_observed, share: calls === 0 ? 0 : Math.min(share(calls_observed, calls), share(bytes_out_observed, bytes_out)) };
}

/** The fields of the seed, of each signal. */
function fieldsOf(v, all) {
  const part = (signal, name) => all[signal].find((p) => p.name === name);
  const durations = v.calls.map((c) => c.duration).filter((d) => d !== undefined);
  const tokens = v.calls.map((c) => c.tokens).filter(Boolean);
  const largest = samplesOf(v).reduce((a, b) => (a && a.sample.bytes >= b.sample.bytes ? a : b), undefined);
  const { passed, accuracy } = part('challenge', 'commitments');
  return {
    timing: {
      llm_latency_ms: durations.length ? median(durations) : 0,
      tokens_per_second: tokens.length ? 1000 * sum(tokens.map((t) => t.count)) / sum(tokens.map((t) => t.duration)) : 0,
      latency_variance: variance(durations),
    },
    recursion: {
      chain_length: part('recursion', 'chain').value, self_references: sum(v.calls.map((c) => c.selfReferences?.value ?? 0)),
      reasoning_depth: part('recursion', 'depth').value,
    },
    knowledge: {
      domains_touched: v.session.domains.map((d) => d.name).sort(byBytes),
      consistency_score: part('knowledge', 'agreement').value, superhuman_indicators: part('knowledge', 'superhuman').value,
    },
    entropy: {
      session_duration_ms: v.duration, interaction_count: v.calls.length, response_entropy: largest ? largest.sample.entropy / 1000 : 0,
      fatigue_indicators: part('entropy', 'fatigue').value,
    },
    challenge: { challenges_issued: v.challenges.length, challenges_passed: passed, commitment_accuracy: accuracy },
  };
}

/** The score of a session with its intermediate figures, by formulas, challenges and a baseline (or none). */
export function appraise(session, input) {
  const { weights, bands } = input.formulas;
  const view = new View(session, input);
  const all = partsOf(view);
  const fields = fieldsOf(view, all);
  const score = compositeOf(all, input.formulas);
  const rounded = Math.floor(score * 1e9 + 0.5) / 1e9;
  const signals = {};
  for (const [name, of] of Object.entries(all)) {
    const measured = of.map((p) => p.state).filter((state) => state !== NOT_MEASURED);
    const shown = of.map(({ passed, accuracy, ...part }) => part);
    signals[name] = { ...fields[name], score: pointsOf(of), state: measured.length ? weakest(measured) : NOT_MEASURED, parts: shown };
  }
  return {
    score, seedWeighted: sum(Object.entries(all).map(([name, of]) => weights[name] * pointsOf(of))), band: bands.filter((b) => b.from <= rounded).at(-1).name,
    n: session.calls.length, otherCalls: session.otherCalls, interval: intervalOf(session, input, all, score), coverage: coverageOf(session.receipts),
    modelHosts: session.hosts, signals,
  };
}
