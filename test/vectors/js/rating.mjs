// The rating R of an agent, from its log.
const DAY = 86_400;
const WINDOW = 20;
const TEN = 10;
const WEIGHTS = { trace: 0.2, sources: 0.2, context: 0.15, verification: 0.15, timestamp: 0.1, schema: 0.2 };
const TIERS = [['S', 85], ['A', 70], ['B', 55], ['C', 40], ['D', 0]];

export const ratingTier = (r) => TIERS.find(([, from]) => r >= from)[0];

const round = (x) => Math.sign(x) * Math.round(Math.abs(x) * 1e6) / 1e6 + 0;
const mean = (values) => values.reduce((sum, v) => sum + v, 0) / values.length;
const within = (x, low, high) => Math.min(high, Math.max(low, x));
const ownerOf = (id) => (id.startsWith('did:') ? undefined : id.slice(0, id.indexOf(':')));

function spread(values) {
  const m = mean(values);
  return Math.sqrt(mean(values.map((v) => (v - m) ** 2)));
}

/** Of the neighbours in a list, the share of which something holds. */
function ofNeighbours(list, holds) {
  return list.slice(1).filter((b, i) => holds(list[i], b)).length / (list.length - 1);
}

function worth(signal) {
  let sum = 0;
  for (const [name, weight] of Object.entries(WEIGHTS)) if (signal[name]) sum += weight;
  if (!signal.schema) sum = Math.min(sum, 0.3);
  if (!signal.verification) sum = Math.min(sum, 0.6);
  return round(sum);
}

class History {
  events = new Map(); // sessions by id, by event
  flagged = 0;
  signals = [];
  citedBy = new Set();
  survived = new Set();
  refuted = new Set();
  lost = new Set();
  failed = 0;
  violations = [];

  constructor(agent, scoringHash) {
    this.owner = ownerOf(agent);
    this.scoringHash = scoringHash;
  }

  take({ session, signal, cited, dispute, raised, violation }, at) {
    if (session) {
      if (session.scoringHash !== this.scoringHash) return;
      const sessions = this.events.get(session.event_id) ?? new Map();
      this.events.set(session.event_id, sessions.set(session.session_id, session));
    }
    if (signal) this.signals.push(worth(signal));
    if (signal?.verification && !this.owner) { // elsewhere: all that is seen are its days
      const today = at - (at % DAY);
      if (today > (this.day ?? 0)) this.events.set(today, new Map([[0, { score: 30, interactions: 1, hosts: [''] }]]));
      this.day = Math.max(today, this.day ?? 0);
    }
    if (cited) this.credit(this.citedBy, cited.by);
    if (violation) this.violations.push(at);
    if (dispute?.outcome === 'target_wins') this.credit(this.survived, dispute.other);
    if (dispute?.outcome === 'challenger_wins') {
      this.lost.add(dispute.about);
      this.flagged = this.events.size;
    }
    if (raised?.outcome === 'challenger_wins') this.credit(this.refuted, raised.other);
    if (raised?.outcome === 'target_wins') this.failed++;
  }

  credit(owners, other) {
    const owner = other && ownerOf(other);
    if (owner && owner !== this.owner) owners.add(owner);
  }

  outcomes() {
    const events = [...this.events.values()].map((sessions, i) => ({ sessions: [...sessions.values()], flagged: i < this.flagged }));
    return events.filter(({ sessions }) => sessions.some((s) => s.interactions > 0)).slice(-WINDOW).map(({ sessions, flagged }) => ({
      value: flagged ? 0 : Math.min(...sessions.map((s) => s.score)) / 100, hosts: new Set(sessions.flatMap((s) => s.hosts)), flagged,
    }));
  }

  inputs(outcomes, midnight) {
    const values = outcomes.map((o) => o.value);
    const s = spread(values);
    const levels = values.slice(TEN - 1).map((_, i) => mean(values.slice(i, i + TEN)));
    const falls = levels.flatMap((level, i) => levels.slice(i).map((later) => level - later));
    const inputs = {
      sigma: Math.max(0, s - 0.12), drawdown: outcomes.some((o) => o.flagged) ? 1 : Math.max(0, ...falls),
      transparency: mean(this.signals.slice(-WINDOW)), rap: within((mean(values) - 0.3) / Math.max(s, 0.12), -3, 3),
      adoption: (10 + this.citedBy.size) / (20 + this.citedBy.size),
      survival: (10 + this.survived.size) / (20 + this.survived.size + 10 * this.lost.size),
      helpfulness: (10 + this.refuted.size) / (20 + this.refuted.size + 10 * this.failed),
      instability: ofNeighbours(outcomes, (a, b) => round(Math.abs(a.value - b.value)) > 0.5),
      band_abuse: ofNeighbours(outcomes, (a, b) => [...a.hosts].every((host) => !b.hosts.has(host))),
      spam: Math.min(1, this.violations.reduce((sum, at) => sum + 0.25 * 2 ** (-(midnight - at) / 604_800), 0)),
    };
    return Object.fromEntries(Object.entries(inputs).map(([name, value]) => [name, round(value)]));
  }
}

function factorsOf(i) {
  return {
    C: round(Math.exp(-i.sigma) * Math.exp(-1.5 * i.drawdown)), T: i.transparency, P: round(1 / (1 + Math.exp(-1.2 * i.rap))),
    V: round(0.35 * i.adoption + 0.45 * i.survival + 0.2 * i.helpfulness), Q: round(i.instability + i.band_abuse + i.spam),
  };
}

/** What factors give today, without what was before. */
export function todayOf({ C, T, P, V, Q }) {
  return round(100 * C * T * P * V / (1 + Q));
}

const none = () => ({
  r: 0, r_tier: '', r_today: 0, steps: 0, factors: { C: 0, T: 0, P: 0, V: 0, Q: 0 },
  inputs: { sigma: 0, drawdown: 0, transparency: 0, rap: 0, adoption: 0, survival: 0, helpfulness: 0, instability: 0, band_abuse: 0, spam: 0 },
});

/** The rating at a time that follows from a log. */
export function ratingOf(log, { agent, scoringHash, at }) {
  const history = new History(agent, scoringHash);
  const dayOf = (time) => time - (time % DAY);
  const rating = none();
  let lacks = ['sessions', 'signals'];
  let last = 0;
  let day = dayOf(log[0]?.at ?? at);
  const advance = (to) => {
    for (; day < to; day += DAY) step(day + DAY);
  };
  const step = (midnight) => {
    const outcomes = history.outcomes();
    lacks = [...(outcomes.length < TEN ? ['sessions'] : []), ...(history.signals.length === 0 ? ['signals'] : [])];
    if (lacks.length > 0) return;
    rating.inputs = history.inputs(outcomes, midnight);
    rating.factors = factorsOf(rating.inputs);
    rating.r_today = todayOf(rating.factors);
    rating.r = round(within(0.15 * rating.r_today + 0.85 * rating.r, rating.r - 8, rating.r + 8));
    rating.r_tier = ratingTier(rating.r);
    rating.steps++;
  };
  for (const entry of log) {
    if (entry.at < last - 2 * DAY) { // the node's clock was wrong, and has been set back
      [last, day] = [entry.at, dayOf(entry.at)];
      const late = Math.max(0, ...history.violations.map((v) => v - last));
      history.violations = history.violations.map((v) => v - late);
    }
    last = Math.max(last, entry.at);
    advance(dayOf(last));
    history.take(entry, last);
  }
  advance(dayOf(at));
  return { ...rating, as_of: day, measured: lacks.length === 0, ...(lacks.length > 0 && { lacks }) };
}
