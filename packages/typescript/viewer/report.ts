// The report of the verifier, in the form that the page draws.
import type { Claims } from '../src/claims.js';
import { readExport, unpacked } from '../src/export.js';
import { rootsSentence } from '../src/lines.js';
import { type JudgedPost, type Pins, verifyExport } from '../src/record.js';

export type { Pins } from '../src/record.js';

const MAX_BYTES = 256 << 20; // of the unpacked export

export interface Artifact { name: string; token: string; claims: Claims | undefined; kid: string }
export interface Receipt { token: string; claims: Claims | undefined; sound: boolean }
export type State = 'yes' | 'no' | 'unknown';
export interface Line { state: State; text: string; details: string[] }

/** A post with what came with it. */
export interface Judged extends Omit<JudgedPost, 'artifacts'> {
  artifacts: Artifact[];
  receipts: Receipt[];
  /** The artifact that breaks the chain, if it is one. */
  broken: string | undefined;
  /** The artifacts whose signatures and links are verified. */
  sound: Set<string>;
}

export interface Report {
  /** Why the export is refused as a whole. */
  refused: { code: string; detail: string } | undefined;
  lines: Record<'authentic' | 'untampered' | 'witnessed' | 'complete', Line>;
  posts: Judged[];
  /** Which revocation lists counted, of each pair of roots. */
  roots: string[];
  missing: string[];
}

/** The artifacts that each check verifies. */
const VERIFIES: Record<string, string[]> = {
  'origin proof and trigger receipt': ['originProof', 'triggerReceipt'],
  'policy decision': ['policyDecision', 'reputation'], 'action grant': ['grant'], 'runtime attestation': ['runtimeAttestation'],
  'agent session receipt': ['sessionReceipt'],
  'deployment certificate': ['deploymentCertificate'], 'request proof': ['requestProof'],
  'agent statement': ['agentStatement'],
};

export async function judge(bytes: Uint8Array, pins: Pins[], policy: string | undefined): Promise<Report> {
  const report = await verifyExport(bytes, pins,
    { maxBytes: MAX_BYTES, ...(policy !== undefined && { logPolicy: policy }) });
  if (report.status === 'unavailable') throw new Error(report.detail);
  const { authentic: a, untampered: u, witnessed: w, complete: c } = report.lines;
  const state = (no: boolean, yes: boolean): State => (no ? 'no' : yes ? 'yes' : 'unknown');
  const refused = report.text === '';
  const records = refused ? [] : (await readExport(await unpacked(bytes, MAX_BYTES))).records;
  return {
    refused: refused ? { code: report.code, detail: report.detail } : undefined,
    lines: {
      authentic: { ...a, state: state(refused || a.refused > 0, a.incomplete === 0) },
      untampered: { ...u, state: state(refused || u.refused > 0, u.posts > 0 && u.held === u.posts) },
      witnessed: { ...w, state: state(false, u.posts > 0 && w.posts === u.posts) },
      complete: { ...c, state: 'unknown' },
    },
    posts: report.posts.map((post, i) => judged(refused ? withExport(post, report) : post, records[i]?.receipts ?? [],
      report.receiptVerified)),
    roots: report.roots.map(rootsSentence),
    missing: report.missing,
  };
}

/** A post of an export that is refused as a whole: it is refused, too. */
const withExport = (post: JudgedPost, { code, detail }: { code: string; detail: string }): JudgedPost =>
  (post.status === 'refused' ? post : { ...post, status: 'refused', check: 'export', where: '', code, detail,
    outcome: { ...post.outcome, whose: 'nobody: the export is refused' } });

function judged(post: JudgedPost, receipts: string[], verified: (receipt: string) => boolean): Judged {
  const passed = post.checks.filter(({ code }) => code === '').map(({ name }) => name);
  return { ...post,
    artifacts: post.artifacts.map(({ kind, claims, signer, raw }) =>
      ({ name: kind, token: raw, claims: objectOf(claims), kid: signer })),
    receipts: receipts.map((token) => ({ token, claims: claimsOf(token), sound: verified(token) })),
    broken: post.status === 'refused' ? post.artifacts.find(({ kind }) => kind === post.where)?.kind : undefined,
    sound: new Set(passed.flatMap((name) => VERIFIES[name] ?? [])),
  };
}

const objectOf = (value: unknown): Claims | undefined =>
  (typeof value === 'object' && value !== null && !Array.isArray(value) ? value as Claims : undefined);

function claimsOf(token: string): Claims | undefined {
  try {
    const text = token.split('.')[1]!.replaceAll('-', '+').replaceAll('_', '/');
    return objectOf(JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)))));
  } catch {
    return undefined;
  }
}
