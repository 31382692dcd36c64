// A report in the words of mediator verify: four lines, of which none speaks for another.
import type { LogJudge } from './logged.js';
import type { JudgedPost, Report } from './record.js';

/** One of the four results. */
export interface Line { text: string; /** Sentences about single records. */ details: string[] }
export interface Lines {
  authentic: Line & { verified: number; incomplete: number; refused: number };
  untampered: Line & { posts: number; held: number; refused: number; notKnown: number; log: string };
  witnessed: Line & { posts: number; by: { witness: string; posts: number; latest: number }[] };
  /** The whole log is not read here, so this is not known. */
  complete: Line;
}

const OPERATOR = "the operator's word";
const INDENT = ' '.repeat(13);

/** A time in Unix seconds, by RFC 3339. */
const timeOf = (seconds: number): string => new Date(seconds * 1000).toISOString().replace('.000Z', 'Z');

/** The lines; with nothing, a sentence in place of all. */
export function linesOf(posts: JudgedPost[], log: LogJudge, nothing?: string): Lines {
  const count = (status: string) => posts.filter((p) => p.status === status).length;
  const [verified, incomplete, refused] = ['verified', 'incomplete', 'refused'].map(count) as [number, number, number];
  return {
    authentic: { verified, incomplete, refused, details: [], text: nothing ?? `${verified} verified, ${incomplete} ` +
      `incomplete (their records say that the post was refused), ${refused} REFUSED` },
    untampered: { posts: log.posts, held: log.held, refused: log.refusedCount, log: log.log,
      notKnown: log.notKnownCount, text: nothing ?? untampered(log), details: doubts(log) },
    witnessed: { posts: log.witnessed, by: log.by, details: [], text: nothing ?? witnessed(log) },
    complete: { details: [], text: nothing ?? 'not known: give mediator verify --log and --log-policy' },
  };
}

function untampered({ held, posts, witnessed: seen, log }: LogJudge): string {
  if (held > 0) {
    return `${held} of ${posts} records of posts that went out are the ones in the log ${log}` +
      (held > seen ? `; of ${held - seen} that is ${OPERATOR}` : '');
  }
  return posts === 0 ? 'nothing to compare: no record says that its post went out'
    : `not known: no record of ${posts} is proven to be in the log that --log-policy names`;
}

function doubts({ refused, refusedCount, held, notKnown, notKnownCount }: LogJudge): string[] {
  const more = (all: number, listed: number, what: string) =>
    (all > listed ? [`${all - listed} more are ${what}`] : []);
  return [
    ...refused.map(({ id, code, detail }) => `REFUSED ${id === '' ? '' : `${id}, `}${code}: ${detail}`),
    ...more(refusedCount, refused.length, 'refused'),
    ...(held > 0 ? [ // otherwise it is not known of any
      ...notKnown.map(({ id, detail }) => `not known of ${id}: ${detail}`),
      ...more(notKnownCount, notKnown.length, 'not known'),
    ] : []),
  ];
}

function witnessed({ by, posts, witnessed: seen }: LogJudge): string {
  if (by.length === 0) return `no: ${OPERATOR}`;
  return by.map((w) => `${w.witness} saw ${w.posts} of ${posts} records by ${timeOf(w.latest)}`).join('; ') +
    (posts > seen ? `; ${posts - seen} are ${OPERATOR}` : '');
}

// What controls a terminal, or turns the direction of a line.
const STEERS = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;
const line = (text: string): string => `${text.replace(STEERS, '?')}\n`;
const named = (name: string, { text, details }: Line): string =>
  line(`${`${name}:`.padEnd(12)} ${text}`) + details.map((detail) => line(INDENT + detail)).join('');

const MAX_MISSING = 100;
const UNPROVEN = 'posts: that none passed by the log; receipts: that none is missing after the last one here; ' +
  'certificates, revocations: that none is missing';
const SHOWS = `
Of the posts that this check did not refuse:
Certified keys signed the artifacts, and all of them are about one call. That the challenge was solved, that the
capability was good and that everything was used once is the record's word: only the gate that issued them can confirm
it.
No chain shows that no human was involved anywhere.
nonHumanIdentityProven: false
`;

/** Which revocation lists counted. */
export function rootsSentence(r: Report['roots'][number]): string {
  return `Roots ${r.registry} and ${r.auditor}, with ${r.revocations === undefined
    ? 'no revocation list: what was revoked is not known'
    : `the revocation list of ${timeOf(r.revocations)} and ${r.earlier} earlier ones: what any other list revokes ` +
      'is not known'}.`;
}

/** What mediator verify prints. */
export function textOfReport({ lines, missing, posts, roots }: Report): string {
  const kept = posts.filter((p) => p.status !== 'refused');
  return [
    ...posts.filter((p) => p.status === 'refused').map((p) =>
      line(`${p.id} REFUSED at ${p.check}, ${p.code}: ${p.detail}`)),
    named('Authentic', lines.authentic), named('Untampered', lines.untampered), named('Witnessed', lines.witnessed),
    named('Complete', lines.complete), '\n',
    ...(missing.length > 0 ? [line(`${missing.length} posts have a receipt here and no record: ` +
      missing.slice(0, MAX_MISSING).join(', '))] : []),
    ...roots.map((r) => line(rootsSentence(r))),
    ...(roots.length > 0 ? [`\nNot proven, the records' own word: ${unprovenOf(kept)}.\nNot proven of the file: ` +
      `${UNPROVEN}.\n${SHOWS}`] : []),
  ].join('');
}

/** Names the unproven members, with the number of records if it is not all. */
function unprovenOf(posts: JudgedPost[]): string {
  const count = new Map<string, number>();
  for (const name of posts.flatMap((p) => p.unproven)) count.set(name, (count.get(name) ?? 0) + 1);
  return [...count].sort(([, x], [, y]) => y - x)
    .map(([name, n]) => (n < posts.length ? `${name} (of ${n})` : name)).join(', ');
}
