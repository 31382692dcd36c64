// The page: it verifies the export that it holds, and shows the result.
import { hash } from '../src/bytes.js';
import { byId, escaped, foreign, h, quoted, say, time } from './dom.js';
import { type Judged, type Pins, type Report, type State, judge } from './report.js';
import { drawSessions } from './timeline.js';
import { drawTree, fill, fillOnOpen } from './tree.js';

interface Data { name: string; export: string; pins: Pins[]; logPolicy?: string; made: string; by: string }

const data = JSON.parse(byId('data').textContent ?? '') as Data;
const bytes = Uint8Array.from(atob(data.export), (c) => c.charCodeAt(0));
const MARKS: Record<State, string> = { yes: '✓', no: '✗', unknown: '?' };
const AT_ONCE = 100; // posts that are shown, and that print opens

let turn = 0; // of the last verification that began

/** Verifies with these keys, and shows the result unless a later verification has begun. */
async function verify(pins: Pins[], policy: string | undefined, whose: string): Promise<void> {
  const mine = ++turn;
  const state = byId('state');
  state.className = '';
  state.textContent = 'Verifying in this browser…';
  try {
    const report = await judge(bytes, pins, policy);
    if (mine !== turn) return;
    show(report, pins, whose);
    const at = `Verified in this browser at ${time(Date.now())}. The page has loaded nothing.`;
    state.className = report.refused ? 'no' : '';
    state.replaceChildren(at, ...(report.refused ? [' The export as a whole is refused, ', foreign(report.refused.code),
      ': ', foreign(report.refused.detail)] : []));
  } catch (error) {
    if (mine !== turn) return;
    show(undefined, pins, whose);
    state.className = 'no';
    state.replaceChildren('Nothing could be verified: ', foreign(error instanceof Error ? error.message : error));
  }
}

function show(report: Report | undefined, pins: Pins[], whose: string): void {
  byId('lines').replaceChildren(...Object.entries(report?.lines ?? {}).flatMap(([name, line]) => [
    h('dt', {}, `${name[0]!.toUpperCase()}${name.slice(1)}`),
    h('dd', { id: name }, h('span', { class: `mark ${line.state}`, 'aria-hidden': 'true' }, MARKS[line.state]), ' ',
      escaped(line.text), line.details.length > 0 && h('ul', {}, ...line.details.map((m) => h('li', {}, foreign(m))))),
  ]));
  byId('pins').replaceChildren(h('p', {}, h('b', {}, whose)), ...pins.flatMap(drawPins),
    h('p', {}, revocationsOf(pins)), ...(report?.roots ?? []).map((text) => h('p', {}, escaped(text))));
  const isRefused = (p: Judged): boolean => p.status === 'refused';
  const posts = [...report?.posts ?? []].sort((a, b) => Number(isRefused(b)) - Number(isRefused(a)));
  const refused = posts.filter(isRefused).length;
  byId('count').textContent = posts.length === 0 ? 'No post was verified.'
    : `${posts.length} posts in the export, ${refused} of them refused${refused > 0 ? ', which come first' : ''}.`;
  if (report?.missing.length) {
    byId('count').append(` ${report.missing.length} more posts have a receipt and no record: `,
      ...report.missing.slice(0, AT_ONCE).flatMap((id) => [foreign(id), ' ']));
  }
  byId('posts').replaceChildren();
  more(posts);
  byId('more').onclick = () => more(posts);
  byId('sessions').replaceChildren(...drawSessions(posts, link));
}

function drawPins(p: Pins): HTMLElement[] {
  return [h('dl', {}, h('dt', {}, 'Key registry'), h('dd', {}, rootOf(p.registry)), h('dt', {}, 'Deployment auditor'),
    h('dd', {}, rootOf(p.auditor)))];
}

function revocationsOf(pins: Pins[]): string {
  return pins.some(({ bundle }) => bundle !== undefined)
    ? 'Of the trust bundle of the page’s maker, its certificates and its current revocation list count, too. Its ' +
      'history does not. Revocations after it are not known.'
    : 'Only the revocation lists of the export count: what was revoked later is not known.';
}

/** A root's id and key, as its file has them. */
function rootOf(text: string): Node {
  const jwk: unknown = JSON.parse(text);
  const keys = (jwk as { keys?: unknown[] } | null)?.keys;
  const all = Array.isArray(keys) ? keys : [jwk];
  const out = document.createDocumentFragment();
  for (const key of all as { kid?: unknown; x?: unknown; pub?: unknown }[]) {
    out.append(...(out.hasChildNodes() ? [' and '] : []), say`${key?.kid}, key ${key?.x ?? key?.pub}`);
  }
  return out;
}

const anchors = new WeakMap<Judged, HTMLDetailsElement>();

function more(posts: Judged[]): void {
  const list = byId('posts');
  const next = posts.slice(list.childElementCount, list.childElementCount + AT_ONCE);
  list.append(...next.map((post) => drawPost(post, list.childElementCount + next.indexOf(post))));
  byId('more').hidden = list.childElementCount >= posts.length;
}

const STATUS: Record<Judged['status'], [string, State]> = {
  verified: ['authentic', 'yes'], incomplete: ['incomplete: the post was refused', 'unknown'],
  refused: ['REFUSED', 'no'],
};

function drawPost(post: Judged, number: number): HTMLElement {
  const r = post.record;
  const [word, state] = STATUS[post.status];
  const details = h('details', { id: `post-${number}`, class: post.status === 'refused' ? 'broken' : '' },
    h('summary', {}, h('span', { class: `mark ${state}` }, `${MARKS[state]} ${word}`), ' ', foreign(post.id), ' ',
      say`${r.method} ${r.host}${r.path}`, post.unproven.includes('host') ? ' (host: the record’s own word) ' : ' ',
      h('span', { class: 'dim' }, time(Date.parse(String(r.started))))));
  anchors.set(post, details);
  fillOnOpen(details, () => [
    post.status === 'refused' && h('p', { class: 'no' }, say`Broken at ${post.check}, ${post.code}: ${
      post.detail}. The command mediator explain ${post.code} says more.`),
    h('h3', {}, 'What the record says'), drawFacts(post),
    h('h3', {}, 'The chain of evidence: each artifact above those that it rests on'), drawTree(post),
  ]);
  return details;
}

const FACTS = ['state', 'status', 'method', 'host', 'path', 'code', 'step', 'reason', 'rule', 'subject', 'action',
  'resource', 'message', 'result', 'session', 'event', 'contentHash', 'bindingHash', 'capabilityId', 'manifest',
  'started', 'finished'];

function drawFacts(post: Judged): HTMLElement {
  const out = h('dl', {}, h('dt', {}, 'outcome'), h('dd', {}, foreign(post.outcome.state),
    ...(post.outcome.status ? [' ', foreign(post.outcome.status)] : []), ': ', foreign(post.outcome.whose)));
  for (const name of FACTS) {
    if (post.record[name] === undefined) continue;
    out.append(h('dt', {}, name), h('dd', {}, foreign(post.record[name]), ' ', h('span', { class: 'how' },
      post.status === 'refused' || post.unproven.includes(name) ? 'the record’s own word' : 'proven by signatures')));
  }
  return out;
}

/** A link to a post, which shows and opens it. */
function link(post: Judged): Node {
  const a = h('a', { href: '#posts' }, foreign(post.id));
  a.addEventListener('click', (event) => {
    event.preventDefault();
    while (!anchors.has(post) && !byId('more').hidden) byId('more').click();
    const details = anchors.get(post);
    if (!details) return;
    fill(details);
    details.open = true;
    details.scrollIntoView();
    details.querySelector('summary')?.focus();
  });
  return a;
}

const BY_MAKER = 'Pinned by whoever made this page. The results are worth as much as your trust in them. Compare ' +
  'these keys with those that the security team gave you, or paste your own.';
const BY_READER = 'Pinned by you: you pasted these keys into this page.';

const restart = (): Promise<void> => verify(data.pins, data.logPolicy, BY_MAKER);

function useOwn(): void {
  const value = (id: string) => byId<HTMLTextAreaElement>(id).value;
  const problem = byId('problem');
  problem.textContent = '';
  try {
    const pins = { registry: value('registry'), auditor: value('auditor') };
    Object.values(pins).forEach((text) => JSON.parse(text));
    void verify([pins], value('policy').trim() ? value('policy') : undefined, BY_READER);
  } catch (error) {
    problem.textContent = `A key is not JSON: ${error instanceof Error ? error.message : error}`;
  }
}

/** Opens what paper should show, and closes it afterwards. */
function openForPrint(): void {
  const closed = [...document.querySelectorAll<HTMLDetailsElement>(
    '#posts > details:not([open]), #sessions > details:not([open])')];
  for (const details of closed.slice(0, AT_ONCE)) {
    fill(details);
    details.open = true;
  }
  addEventListener('afterprint', () => closed.forEach((details) => { details.open = false; }), { once: true });
}

async function start(): Promise<void> {
  document.title = `Evidence in ${data.name}`;
  byId('about').append(say`${data.name}, ${bytes.length} bytes, SHA-256 ${await hash(bytes)}. Page made at ${
    data.made} by mediator ${data.by}.`);
  byId('command').textContent = `mediator verify ${quoted(data.name)} --registry registry.jwk --auditor auditor.jwk${
    data.logPolicy ? ' --log-policy log-policy.txt' : ''}`;
  byId('save').onclick = () => {
    const url = URL.createObjectURL(new Blob([bytes]));
    h('a', { href: url, download: data.name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  };
  byId('own').onsubmit = (event) => {
    event.preventDefault();
    useOwn();
  };
  byId('reset').onclick = () => void restart();
  addEventListener('beforeprint', openForPrint);
  await restart();
}

void start();
