// The claims of a reputation token, and what follows from an agent's log. Types as in claims.mjs; d is a number.
import { canonical } from './canonical.mjs';
import { ratingTier } from './rating.mjs';
import { bytesIn, hash, isHash, refuseIf } from './refusal.mjs';

export const reputation = {
  agent_id: 's', owner: 's', agent: 's', total_interactions: 'i', flagged_interactions: 'i', total_sessions: 'i', first_seen: 'i', current_score: 'd',
  score_trend: 's', lower: 'd', coverage: 'd', provisional: 'b', score_history: [{ timestamp: 'i', score: 'd', session_id: 's', coverage: 'd' }],
  scoringHash: 's', challenges_received: 'i', challenges_won: 'i', challenges_lost: 'i', 'disputes_pending?': 'i',
  'disputes_won?': 'i', 'disputes_lost?': 'i', 'dispute_points?': 'i', disputed: 'b', tier: 's', log: { entries: 'i', head: 's' },
  'verification?': { result: 's', at: 'i', expires: 'i', mode: 's', degraded: 'b' }, 'rating?': { r: 'd', q: 'd', r_tier: 's' }, probabilistic: 'b', nonHumanIdentityProven: 'b',
};

const WINDOW = 20;
const POINTS = { won: 2, kept: 1, lost: 5, gained: 5, taken: 100 };
const TIERS = [
  { name: 'new', score: 0, interactions: 0 }, { name: 'building', score: 30, interactions: 10 }, { name: 'established', score: 50, interactions: 100 },
  { name: 'trusted', score: 70, interactions: 500, spotless: true }, { name: 'verified', score: 85, interactions: 1000, spotless: true },
];
const STUDENT = [
  12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.306, 2.2622, 2.2281, 2.201, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.093,
];

const round = (x) => Math.sign(x) * Math.round(Math.abs(x) * 1e6) / 1e6 + 0;
const mean = (values) => (values.length === 0 ? 0 : values.reduce((sum, v) => sum + v, 0) / values.length);

function trendOf(scores) {
  if (scores.length <= 5) return 'stable';
  const change = round(mean(scores.slice(-5)) - mean(scores.slice(0, -5)));
  return change > 2 ? 'rising' : change < -2 ? 'falling' : 'stable';
}

function lowerOf(scores) {
  const n = scores.length;
  if (n < 2) return 0;
  const m = mean(scores);
  const squares = scores.reduce((sum, s) => sum + (s - m) * (s - m), 0);
  return round(Math.max(0, m - STUDENT[n - 2] * Math.sqrt(squares / (n - 1) / n)));
}

/** What follows from the history and the counts. */
function derived({ score_history: history, total_interactions: total, flagged_interactions: flagged, challenges_lost: lost, dispute_points: given = 0 }) {
  const scores = history.map((s) => s.score);
  const points = scores.length === 0 ? 0 : given;
  const disputed = lost > 0 && history.length < WINDOW;
  const score = disputed ? 0 : round(Math.min(100, Math.max(0, mean(scores) + points)));
  const ranked = Math.min(score, round(mean(scores)));
  const tier = TIERS.findLast((t) => ranked >= t.score && total - flagged >= t.interactions && !(t.spotless && lost > 0));
  return {
    current_score: score, coverage: round(mean(history.map((s) => s.coverage))), score_trend: trendOf(scores),
    lower: disputed ? 0 : round(Math.max(0, lowerOf(scores) + Math.min(0, points))), provisional: history.length < WINDOW, disputed, tier: tier.name,
  };
}

const named = (text, bound) => text !== '' && bytesIn(text) <= bound;
const within = (x, most) => x >= 0 && x <= most && x === round(x);

function soundPassed({ result, at, expires, mode }) {
  return isHash(result) && at > 0 && expires > at && expires - at <= 86400 && ['observed', 'seed'].includes(mode);
}

/** Whether well-typed claims make a reputation. */
export function soundReputation(c) {
  const { score_history: history, log } = c;
  if (!c.probabilistic || c.nonHumanIdentityProven || !named(c.keyCustody, 128)) return false;
  if (bytesIn(c.owner) !== 43 || c.owner.includes(':') || !named(c.agent, 256) || c.agent_id !== `${c.owner}:${c.agent}`) return false;
  if (!isHash(c.scoringHash) || !isHash(log.head)) return false;
  const interactions = 0 <= c.flagged_interactions && c.flagged_interactions <= c.total_interactions && c.total_interactions <= c.total_sessions;
  const disputes = c.challenges_won >= 0 && c.challenges_lost >= 0 && c.challenges_won + c.challenges_lost <= c.challenges_received;
  const { disputes_pending: pending = 0, disputes_won: won = 0, disputes_lost: lost = 0, dispute_points: points = 0 } = c;
  if (pending < 0 || c.challenges_won + c.challenges_lost + pending > c.challenges_received || won < 0 || lost < 0) return false;
  if (points > Math.min(POINTS.gained, POINTS.won * won + POINTS.kept * c.challenges_won) || points < -Math.min(POINTS.taken, POINTS.lost * lost)) return false;
  const logged = c.total_sessions + c.challenges_received + won + lost <= log.entries && log.entries >= 0 && (c.first_seen > 0) === (log.entries > 0);
  if (!interactions || !disputes || !logged || history.length > c.total_sessions || (c.flagged_interactions > 0 && c.challenges_lost === 0)) return false;
  if (history.length > WINDOW || new Set(history.map((s) => s.session_id)).size !== history.length) return false;
  if (!history.every((s) => s.timestamp > 0 && within(s.score, 100) && within(s.coverage, 1) && named(s.session_id, 128))) return false;
  if (c.verification && !soundPassed(c.verification)) return false;
  if (c.rating && !(within(c.rating.r, 100) && within(c.rating.q, 3) && c.rating.r_tier === ratingTier(c.rating.r))) return false;
  return Object.entries(derived(c)).every(([name, value]) => c[name] === value);
}

/** Holds an opened token against the agent that posts. */
export function checkReputation(c, { owner, agent, scoringHash, at, requireVerification, allowDegraded }) {
  refuseIf(c.owner !== owner || c.agent !== agent, 'reputation_mismatch');
  refuseIf(c.scoringHash !== scoringHash, 'pin_mismatch');
  const { mode, expires, degraded } = c.verification ?? {};
  const counts = mode === 'observed' && at < expires && (!degraded || allowDegraded);
  refuseIf(requireVerification && !counts, 'reputation_insufficient');
}

/** The reputation that follows from a log. */
export function reputationOf(entries, { owner, agent, scoringHash }) {
  const id = `${owner}:${agent}`;
  const events = new Map(); // the sessions of each event, by id
  const outcomes = new Map();
  const raised = new Map();
  let points = []; // each with the number of events that were there
  const log = { entries: 0, head: hash(id) };
  let firstSeen = 0;
  let flagged = 0;
  for (const entry of entries) {
    const { at, session, dispute, raised: own } = entry;
    if (session) {
      const sessions = events.get(session.event_id) ?? new Map();
      const before = sessions.get(session.session_id);
      if (before && canonical(before.session) === canonical(session)) continue;
      events.set(session.event_id, sessions.set(session.session_id, { at, session }));
    } else if (own) {
      if (raised.has(own.dispute_id)) continue;
      raised.set(own.dispute_id, own.outcome);
      if (own.bonus) points.push({ value: POINTS.won, after: events.size });
      else if (own.outcome === 'target_wins') points.push({ value: -POINTS.lost, after: events.size });
    } else if (dispute) {
      const outcome = dispute.outcome ?? '';
      if (outcomes.has(dispute.dispute_id) && (outcome === '' || outcome === outcomes.get(dispute.dispute_id))) continue;
      outcomes.set(dispute.dispute_id, outcome);
      if (outcome === 'challenger_wins') {
        flagged = events.size;
        points = points.filter((p) => p.value < 0);
      }
      if (dispute.bonus) points.push({ value: POINTS.kept, after: events.size });
    }
    firstSeen ||= at;
    log.entries++;
    log.head = hash(`${log.head}\n${canonical(entry)}`);
  }
  const all = [...events.values()].map((sessions) => [...sessions.values()]);
  const counts = all.map((sessions) => sessions.some(({ session }) => session.interactions > 0));
  const history = [];
  for (const sessions of all.slice(flagged)) {
    const scored = sessions.filter(({ session }) => session.scoringHash === scoringHash);
    if (scored.length === 0) continue;
    const { at, session } = scored.reduce((lowest, s) => (s.session.score < lowest.session.score ? s : lowest));
    history.push({ timestamp: at, score: session.score, session_id: session.session_id, coverage: session.coverage });
  }
  const sum = (sign) => points.filter((p) => p.value * sign > 0 && events.size - p.after < WINDOW).reduce((total, p) => total + p.value * sign, 0);
  const some = (claims) => Object.fromEntries(Object.entries(claims).filter(([, n]) => n !== 0));
  const own = (outcome) => [...raised.values()].filter((o) => o === outcome).length;
  const ended = (outcome) => [...outcomes.values()].filter((o) => o === outcome).length;
  const r = {
    agent_id: id, owner, agent, total_interactions: counts.filter(Boolean).length, flagged_interactions: counts.slice(0, flagged).filter(Boolean).length,
    total_sessions: all.length, first_seen: firstSeen, score_history: history.slice(-WINDOW), scoringHash, challenges_received: outcomes.size,
    challenges_won: ended('target_wins'), challenges_lost: ended('challenger_wins'), log,
    ...some({
      disputes_pending: ended(''), disputes_won: own('challenger_wins'), disputes_lost: own('target_wins'),
      dispute_points: Math.min(POINTS.gained, sum(1)) - Math.min(POINTS.taken, sum(-1)),
    }),
  };
  return { ...r, ...derived(r) };
}
