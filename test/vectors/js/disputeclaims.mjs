// The claims of the tokens about disputes, with the types of claims.mjs.
import { bytesIn, isHash } from './refusal.mjs';

export const resolution = {
  dispute_id: 's', challenger_id: 's', target_id: 's', challenge_type: 's', 'signal_id?': 's', document: 's', opened_at: 'i', status: 's', outcome: 's', resolver: 's',
  reason: 's', 'malicious?': 'b', 'inputs?': 'l', 'decisions?': 'l', resolved_at: 'i', 'appeal_until?': 'i', log: { entries: 'i', head: 's' }, probabilistic: 'b', nonHumanIdentityProven: 'b',
};
export const decision = { dispute_id: 's', document: 's', outcome: 's', reason: 's', 'malicious?': 'b' };

const OUTCOMES = ['challenger_wins', 'target_wins', 'inconclusive'];
const isAgent = (v) => /^([A-Za-z0-9_-]{43}:[^\x00]{1,256}|did:key:z6Mk[1-9A-HJ-NP-Za-km-z]{44})$/u.test(v);

/** Whether a dispute ends so. */
function soundEnd({ dispute_id: id, document, outcome, reason, malicious, inputs = [] }) {
  const length = [...reason].length;
  const sorted = inputs.length <= 48 && inputs.every((name, i) => isHash(name) && (i === 0 || inputs[i - 1] < name));
  return isHash(document) && id === `dsp_${document.slice(0, 32)}` && OUTCOMES.includes(outcome) && length >= 1 && length <= 512 && sorted && (!malicious || outcome === 'target_wins');
}

export function soundResolution(c) {
  const { challenge_type: type, resolver, outcome, log } = c;
  if (!c.probabilistic || c.nonHumanIdentityProven || bytesIn(c.keyCustody) > 128 || !soundEnd(c)) return false;
  if (!isAgent(c.challenger_id) || !isAgent(c.target_id) || c.challenger_id === c.target_id) return false;
  if (c.signal_id !== undefined && !/^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/.test(c.signal_id)) return false;
  const general = type === 'general';
  const by = { automated: !general, arbiter: general, deadline: general || outcome === 'inconclusive' }[resolver];
  if (!['timing', 'knowledge', 'consistency', 'general'].includes(type) || !by) return false;
  const { decisions = [], appeal_until: until } = c;
  const sorted = decisions.length <= 15 && decisions.every((name, i) => isHash(name) && (i === 0 || decisions[i - 1] < name));
  if ((resolver === 'arbiter') !== (decisions.length > 0) || !sorted) return false;
  if (until !== undefined && (until < 1 || resolver !== 'arbiter')) return false;
  return c.status === 'resolved' && c.opened_at >= 1 && c.resolved_at >= c.opened_at && log.entries >= 2 && isHash(log.head);
}

export const soundDecision = soundEnd;
