// The interaction receipts on which records rest: each session's chain, up to the last receipt that its records name.
import { tokenHash } from './bytes.js';
import type { Claims } from './claims.js';
import type { PostRecord } from './export.js';
import { isOutcome } from './logged.js';
import { Chain, type Opener } from './receipts.js';
import { Refusal, refuse, refuseIf } from './refusal.js';

const AT_ONCE = 500;
const AFTER = 16; // receipts read after the named one to find the post's own, which is among the next
const MAX_RECEIPTS = 1 << 20; // of all sessions

interface Session {
  chain: Chain;
  /** Posts with a receipt whose record has not come yet, by id. */
  posts: Map<string, Claims>;
  /** Their ids, by binding. */
  ids: Map<string, string>;
}

// States of a record that a receipt's outcome allows. After a crash that is always indeterminate.
const STATES: Record<string, string[]> = {
  completed: ['forwarded'], failed: ['failed', 'refused'],
  indeterminate: ['forwarded', 'failed', 'indeterminate', 'forwarding'],
};

export class Sessions {
  /** The receipts whose signatures and places in their chains are verified. */
  readonly verified = new Set<string>();
  private readonly queues = new Map<string, string[]>();
  private readonly sessions = new Map<string, Session>();
  private count = 0;

  /** Adds receipts as the export has them. */
  deliver(session: string, receipts: string[]): void {
    const queue = this.queues.get(session) ?? [];
    for (const receipt of receipts) queue.push(receipt); // too many for one call's arguments
    this.queues.set(session, queue);
  }

  /** How many receipts no record has asked for. */
  unasked(): number {
    return [...this.queues.values()].reduce((sum, { length }) => sum + length, 0);
  }

  /** Posts with a verified receipt and no record. */
  missing(): string[] {
    return [...this.sessions.values()].flatMap(({ posts }) => [...posts.keys()]).sort();
  }

  /**
   * Verifies the receipts up to the one that the record's session receipt names (head) and to the post's own, and
   * compares them with the record. Without receipts there is no result.
   */
  async verify(open: Opener, owner: string, r: PostRecord, head: Claims):
    Promise<{ post: Claims | undefined } | undefined> {
    const id = r.session ?? '';
    const s: Session = this.sessions.get(id) ?? { chain: new Chain(open, owner, id, r.subject ?? ''), posts: new Map(),
      ids: new Map() };
    this.sessions.set(id, s);
    const binding: string = r.bindingHash ?? '';
    while (s.chain.length < head.number || (!s.posts.has(r.id) && !s.ids.has(binding) && isOutcome(r.state))) {
      try {
        if (await this.read(s, id, head.number) === 0) break;
      } catch (error) {
        const later = error instanceof Refusal && error.code === 'roots_not_pinned';
        if (!later || s.chain.length === 0 || s.chain.length < head.number) throw error;
        break; // a later start under other roots made the rest: it says nothing about the record
      }
    }
    if (s.chain.length === 0 && head.number > 0) return undefined;
    const event = s.chain.last?.event_id;
    refuseIf(event !== undefined && event !== (r.event ?? ''), 'chain_broken',
      'the receipts come from a session of another event than the record');
    s.chain.names(head);
    const other = s.ids.get(binding);
    refuseIf(other !== undefined && other !== r.id, 'record_mismatch',
      'the receipt of the post names another id than the record');
    const post = s.posts.get(r.id);
    if (!post) return { post: undefined };
    s.posts.delete(r.id);
    s.ids.delete(binding);
    await agree(post, r);
    return { post };
  }

  private async read(s: Session, id: string, to: number): Promise<number> {
    const limit = Math.min(AT_ONCE, Math.max(AFTER, to - s.chain.length));
    const tokens = this.queues.get(id)?.splice(0, limit) ?? [];
    refuseIf((this.count += tokens.length) > MAX_RECEIPTS, 'session_full', 'too many receipts to verify at once');
    for (const token of tokens) {
      const c = await s.chain.add(token);
      this.verified.add(token);
      if (!c.post) continue;
      s.posts.set(c.request_id, c);
      s.ids.set(c.post.binding_hash, c.request_id);
    }
    return tokens.length;
  }
}

/** Refuses a record that the receipt of its post contradicts. */
async function agree(c: Claims, r: PostRecord): Promise<void> {
  const artifacts = await Promise.all(r.artifacts.map(async ({ name, token }) => `${name} ${await tokenHash(token)}`));
  const said = c.post.artifacts.map(({ name, hash }: Claims) => `${name} ${hash}`);
  const differ = (what: string): never =>
    refuse('record_mismatch', `the receipt of the post and the record differ in ${what}`);
  if ((r.bindingHash ?? '') !== c.post.binding_hash || artifacts.join('\n') !== said.join('\n')) {
    differ('binding or artifacts');
  }
  if (Date.parse(r.started) !== c.timing.request_received_ms) differ('start time');
  if (!STATES[c.outcome]?.includes(r.state)) differ('the outcome');
  if (c.outcome !== 'indeterminate' && (r.status ?? 0) !== (c.post.status ?? 0)) differ('status');
}
