// Tokens of a node and of agents that a post may rest on: an agent's reputation, and its statement.
import { isHash } from './bytes.js';
import { type Claims, type Kind, key, kind, texts, within } from './claims.js';

export const agentStatement: Kind = kind('agent-statement', 'agent_statement', {
  ...key, ...texts('s', 'owner', 'agent', 'session', 'eventId', 'kind', 'statementHash', 'bindingHash'),
  ...texts('b', 'probabilistic', 'nonHumanIdentityProven'),
}, {
  check: (c) => c.exp - c.iat === 600 && c.probabilistic && !c.nonHumanIdentityProven && c.owner.length === 43 &&
    within(c.keyCustody, 64) && within(c.agent, 256) && within(c.session, 128) && within(c.eventId, 256) &&
    ['signal', 'contract', 'challenge'].includes(c.kind) && isHash(c.statementHash) && isHash(c.bindingHash),
});

export const reputation: Kind = kind('reputation', 'appraiser', {
  ...key, ...texts('s', 'agent_id', 'owner', 'agent', 'score_trend', 'scoringHash', 'tier'),
  ...texts('i', 'total_interactions', 'flagged_interactions', 'total_sessions', 'first_seen', 'challenges_received',
    'challenges_won', 'challenges_lost', 'disputes_pending?', 'disputes_won?', 'disputes_lost?', 'dispute_points?'),
  ...texts('f', 'current_score', 'lower', 'coverage'),
  ...texts('b', 'provisional', 'disputed', 'probabilistic', 'nonHumanIdentityProven'),
  score_history: [{ timestamp: 'i', score: 'f', session_id: 's', coverage: 'f' }], log: { entries: 'i', head: 's' },
  'verification?': { result: 's', at: 'i', expires: 'i', mode: 's', degraded: 'b' },
  'rating?': { r: 'f', q: 'f', r_tier: 's' },
}, { check: isSound });

const WINDOW = 20;
const among = (n: number, most: number): boolean => n >= 0 && n <= most;

function isSound(c: Claims): boolean {
  const { disputes_pending: pending = 0, disputes_won: won = 0, disputes_lost: lost = 0, dispute_points: points = 0,
    verification: v, rating: r, score_history: history, log } = c;
  const ids = history.map((s: Claims) => s.session_id);
  return c.probabilistic && !c.nonHumanIdentityProven && within(c.keyCustody, 128) &&
    (c.owner === '' ? c.agent_id === c.agent && c.agent.startsWith('did:key:')
      : c.owner.length === 43 && within(c.agent, 256) && c.agent_id === `${c.owner}:${c.agent}`) &&
    isHash(c.scoringHash) && isHash(log.head) &&
    among(c.flagged_interactions, c.total_interactions) && c.total_interactions <= c.total_sessions &&
    history.length <= Math.min(c.total_sessions, WINDOW) && c.challenges_won >= 0 && c.challenges_lost >= 0 &&
    pending >= 0 && c.challenges_won + c.challenges_lost + pending <= c.challenges_received && won >= 0 && lost >= 0 &&
    points >= -Math.min(100, 5 * lost) && points <= Math.min(5, 2 * won + c.challenges_won) &&
    (c.flagged_interactions === 0 || c.challenges_lost > 0) &&
    c.total_sessions + c.challenges_received + won + lost <= log.entries && (c.first_seen > 0) === (log.entries > 0) &&
    history.every((s: Claims) => s.timestamp > 0 && rounded(s.score, 100) && rounded(s.coverage, 1) &&
      within(s.session_id, 128)) && new Set(ids).size === ids.length && follows(c) &&
    (!v || (isHash(v.result) && v.at > 0 && v.expires > v.at && v.expires - v.at <= 86_400 &&
      ['observed', 'seed'].includes(v.mode))) &&
    (!r || (rounded(r.r, 100) && rounded(r.q, 3) && r.r_tier === ratingTier(r.r)));
}

const ratingTier = (r: number): string => (r >= 85 ? 'S' : r >= 70 ? 'A' : r >= 55 ? 'B' : r >= 40 ? 'C' : 'D');

const mean = (values: number[]): number => values.reduce((sum, v) => sum + v, 0) / Math.max(values.length, 1);
/** Six decimals, halves away from zero. */
const round = (f: number): number => Math.sign(f) * Math.round(Math.abs(f) * 1e6) / 1e6 + 0;
// The 0.975 quantiles of Student's t for 1 to 19 degrees of freedom.
const STUDENT = [12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010, 2.1788,
  2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930];
const TIERS: [string, score: number, interactions: number, spotless: boolean][] = [['new', 0, 0, false],
  ['building', 30, 10, false], ['established', 50, 100, false], ['trusted', 70, 500, true],
  ['verified', 85, 1000, true]];

const rounded = (f: number, most: number): boolean => among(f, most) && f === round(f);

/** Whether score, trend, tier and marks follow from history and counts. */
function follows(c: Claims): boolean {
  const scores: number[] = c.score_history.map((s: Claims) => s.score);
  const n = scores.length;
  const points = n === 0 ? 0 : c.dispute_points ?? 0;
  const average = mean(scores);
  const disputed = c.challenges_lost > 0 && n < WINDOW;
  const current = disputed ? 0 : round(Math.min(Math.max(average + points, 0), 100));
  const change = n <= 5 ? 0 : round(mean(scores.slice(-5)) - mean(scores.slice(0, -5)));
  const squares = scores.reduce((sum, s) => sum + (s - average) * (s - average), 0);
  const interval = n < 2 ? 0 : round(Math.max(0, average - STUDENT[n - 2]! * Math.sqrt(squares / (n - 1) / n)));
  const lower = disputed ? 0 : round(Math.max(interval + Math.min(points, 0), 0));
  const counted = c.total_interactions - c.flagged_interactions;
  const score = Math.min(current, round(average));
  const tier = TIERS.findLast(([, least, interactions, spotless]) => score >= least && counted >= interactions &&
    (c.challenges_lost === 0 || !spotless))?.[0] ?? 'new';
  return c.current_score === current && c.coverage === round(mean(c.score_history.map((s: Claims) => s.coverage))) &&
    c.score_trend === (change > 2 ? 'rising' : change < -2 ? 'falling' : 'stable') &&
    c.lower === lower && c.provisional === n < WINDOW && c.disputed === disputed && c.tier === tier;
}

/** Whether an agent's verification counts at a time (Unix seconds). */
export const counts = (v: Claims | undefined, now: number, degraded: boolean): boolean =>
  v !== undefined && v.mode === 'observed' && now < v.expires && (degraded || !v.degraded);
