// The chain of the interaction receipts of one session.
import { decode, kinds } from './claims.mjs';
import { refuse, refuseIf, tokenHash } from './refusal.mjs';
import { parse } from './token.mjs';

const TYP = 'interaction-receipt+jwt';
export const MAX_RECEIPTS = 1 << 17;
const COUNTS = ['calls', 'calls_observed', 'bytes_out', 'bytes_out_observed'];

export class ReceiptChain {
  constructor({ trust, expected, owner, session, agent, clock }) {
    Object.assign(this, { trust, expected, owner, session, agent, clock });
    this.hashes = [];
    this.numbers = new Map(); // by request
  }

  /** Adds the next receipt, judged as of the second in which it was signed. */
  add(token) {
    const { iat } = decode(kinds[TYP], parse(token, 'EdDSA', TYP).payload);
    refuseIf(iat > this.clock.at + this.clock.skew, 'clock_skew');
    const c = this.trust.open(TYP, token, this.expected, { at: iat, skew: this.clock.skew });
    this.follows(c, tokenHash(token));
    this.hashes.push(tokenHash(token));
    this.numbers.set(c.request_id, c.chain.sequence_number);
    this.last = c;
  }

  follows(c, hash) {
    const { chain: link, session: now } = c;
    const { last } = this;
    const count = this.hashes.length;
    const session = last?.chain.session_id ?? this.session;
    const agent = last?.agent ?? this.agent;
    refuseIf(!this.owner || c.owner !== this.owner, 'roots_not_pinned');
    refuseIf(session && link.session_id !== session || agent && c.agent !== agent || last?.closing, 'chain_broken');
    refuseIf(count === MAX_RECEIPTS, 'session_full');
    refuseIf(link.sequence_number > count + 1, 'chain_incomplete');
    if (link.sequence_number <= count) refuse(this.hashes[link.sequence_number - 1] === hash ? 'chain_broken' : 'chain_broken');
    refuseIf(
      count > 0 && link.previous_receipt_hash !== this.hashes[count - 1] || this.numbers.has(c.request_id), 'chain_broken');
    if (!last) return;
    refuseIf(
      c.event_id !== last.event_id || c.runtime_id !== last.runtime_id || now.opened_ms !== last.session.opened_ms ||
      c.iat < last.iat || COUNTS.some((name) => now[name] < last.session[name]), 'chain_broken');
  }

  /** Holds what a session receipt names against the chain. */
  names({ number, headHash, openCalls = [] }) {
    const none = number === 0 && !headHash;
    refuseIf(!none && (!headHash || this.hashes[number - 1] !== headHash), 'chain_broken');
    for (const id of openCalls) {
      const ended = this.numbers.get(id);
      refuseIf(ended === undefined ? this.last?.closing : ended <= number, 'chain_broken');
    }
  }
}
