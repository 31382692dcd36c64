// What a session did, from its interaction receipts and its posts.
import type { Claims } from '../src/claims.js';
import { foreign, h, join, say, time, whole } from './dom.js';
import type { Judged, Receipt } from './report.js';
import { claimList, fillOnOpen } from './tree.js';

interface Moment { at: number; what: Node; known: string; more?: Receipt }

/** Draws the timelines of all sessions. link makes a link to a post. */
export function drawSessions(posts: Judged[], link: (post: Judged) => Node): HTMLElement[] {
  const bySession = new Map<string, Judged[]>();
  for (const post of posts) {
    const id = String(post.record.session ?? '');
    bySession.set(id, [...bySession.get(id) ?? [], post]);
  }
  return [...bySession].map(([id, all]) => {
    const details = h('details', {}, h('summary', {}, 'Session ', id ? foreign(id) : 'without an id', ': ',
      `${all.length} posts, ${all.reduce((n, p) => n + p.receipts.length, 0)} interaction receipts`));
    fillOnOpen(details, () => [h('ol', { class: 'timeline' }, ...momentsOf(all, link).map(drawMoment))]);
    return details;
  });
}

function momentsOf(posts: Judged[], link: (post: Judged) => Node): Moment[] {
  const moments: Moment[] = [];
  const told = new Set<unknown>();
  for (const receipt of posts.flatMap((post) => post.receipts)) {
    const c = receipt.claims;
    const at = Number(c?.timing?.request_received_ms ?? NaN);
    const known = receipt.sound ? 'observed by the sidecar, signature verified' : 'receipt not verified';
    if (!c) {
      moments.push({ at, what: document.createTextNode('a receipt that cannot be read'), known, more: receipt });
      continue;
    }
    const post = c.post && posts.find((p) => p.id === c.request_id);
    if (post) told.add(post);
    for (const t of Array.isArray(c.relayed) ? c.relayed : []) {
      moments.push({ at, what: say`tool ${t?.tool} at ${t?.host}`, known });
    }
    const what = post ? say`post ${link(post)} ${c.outcome}${answered(c.post.status)}` : described(c);
    moments.push({ at, what: say`${c.chain?.sequence_number}: ${what}`, known, more: receipt });
  }
  for (const post of posts.filter((p) => !told.has(p))) {
    moments.push({ at: Date.parse(String(post.record.started)), known: 'the record’s own word',
      what: say`post ${link(post)} ${post.record.state}` });
  }
  return moments.sort((a, b) => a.at - b.at);
}

function drawMoment({ at, what, known, more }: Moment): HTMLElement {
  const item = h('li', {}, h('span', { class: 'dim' }, time(at)), ' ', what, ' ', h('span', { class: 'how' }, known));
  if (more) {
    const details = h('details', {}, h('summary', {}, 'Its claims and token'));
    fillOnOpen(details, () => [more.claims && claimList(more.claims), whole(more.token)]);
    item.append(details);
  }
  return item;
}

function described(c: Claims): Node {
  if (c.post) return say`post ${c.request_id} ${c.outcome}${answered(c.post.status)}`;
  if (c.closing) return say`end of the session: ${c.closing.reason}`;
  const m = c.model_call;
  if (!m) return say`${c.outcome} ${c.request_id}`;
  const said: Node[] = [say`model ${m.model} at ${m.host}: ${c.outcome}${answered(m.status)}`];
  for (const [name, figure] of [['tokens in', 'input_tokens'], ['tokens out', 'output_tokens'],
    ['ms', 'duration_ms'], ['new words', 'new_input_words']] as const) {
    const f = m.figures?.[figure];
    if (f && f.state !== 'not_measured') said.push(say`${f.value} ${document.createTextNode(name)} (${f.state})`);
  }
  const calls = Array.isArray(m.tool_calls) ? m.tool_calls : [];
  if (calls.length > 0) {
    said.push(say`asks for ${join(calls.map((t: Claims) => foreign(t?.tool ?? 'a tool that is not named')), ' ')}`);
  }
  return join(said, ', ');
}

const answered = (status: unknown): Node => (status ? say` (${status})` : document.createTextNode(''));
