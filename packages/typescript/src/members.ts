// The members of a record: what its verified artifacts contradict, and what no signature proves.
import { fromBase64url, textOf } from './bytes.js';
import { type Claims, requestProof, sessionReceipt, unverified } from './claims.js';
import type { PostRecord } from './export.js';
import { CHECKS, type Check } from './judge.js';
import { refuseIf, unlessRefused } from './refusal.js';

/** The check that compares the key of an API's answer with the pinned ones. */
export const ANSWER_KEY = "key of the API's answer";
const SECOND = 1_000_000_000n; // nanoseconds
const SKEW = 60n * SECOND;
const SIGNED = ['originProof', 'triggerReceipt', 'policyDecision', 'grant', 'runtimeAttestation', 'sessionReceipt',
  'requestProof', 'agentStatement'];

export const tokenOf = (r: PostRecord, name: string): string => r.artifacts.find((x) => x.name === name)?.token ?? '';

/** Nanoseconds since 1970. */
function nanos(time: string): bigint {
  const digits = /\.(\d+)/.exec(time)?.[1] ?? '';
  return BigInt(Date.parse(time.replace(/\.\d+/, ''))) * 1_000_000n + BigInt(digits.padEnd(9, '0'));
}

/** Unverified times in Unix seconds: of a post's first and last signature, and of the moment to judge it by. */
export interface Times { first?: number; last?: number; moment: number }

export async function timesOf(r: PostRecord): Promise<Times> {
  const times = r.artifacts.filter(({ name }) => SIGNED.includes(name)).flatMap(({ token }) => {
    try {
      const { iat } = JSON.parse(textOf(fromBase64url(token.split('.')[1] ?? '') ?? new Uint8Array()) ?? '');
      return Number.isSafeInteger(iat) && iat !== 0 ? [iat as number] : [];
    } catch {
      return [];
    }
  });
  const proof = await claimsOf(requestProof, tokenOf(r, 'requestProof'));
  const started = Math.floor(Date.parse(r.started) / 1000);
  if (times.length === 0) return { moment: proof?.iat ?? started };
  const [first, last] = [Math.min(...times), Math.max(...times)];
  return { first, last, moment: proof?.iat ?? last };
}

const claimsOf = (kind: Parameters<typeof unverified>[0], token: string): Promise<Claims | undefined> =>
  unlessRefused(() => unverified(kind, token));

/** The head of the chain of receipts that a record's session receipt names, unverified. */
export const headOf = async (r: PostRecord): Promise<Claims | undefined> =>
  (await claimsOf(sessionReceipt, tokenOf(r, 'sessionReceipt')))?.interactions;

/** Refuses a record that its verified artifacts contradict. now is today's time in Unix seconds. */
export async function checkRecord(r: PostRecord, manifestHash: string, { first, last }: Times, now: number):
  Promise<void> {
  const mismatch = (failed: unknown, why: string): void => refuseIf(failed, 'record_mismatch', why);
  mismatch(r.flow !== 'post', 'the record has evidence, but is of no post');
  mismatch(r.learning, 'the record has evidence, but names a session that only learns');
  mismatch(r.keys?.length, 'the record itself lists signing keys; only its artifacts may name them');
  mismatch((r.manifest ?? '') !== manifestHash && tokenOf(r, 'deploymentCertificate') !== '',
    'the record and its deployment certificate name different manifests');
  const started = nanos(r.started);
  const finished = r.finished === undefined ? undefined : nanos(r.finished);
  if (first !== undefined && last !== undefined) {
    const [from, to] = [BigInt(first) * SECOND, BigInt(last) * SECOND];
    mismatch(started > from + SECOND + SKEW, 'the record starts after its first artifact was signed');
    mismatch(from - started > 3600n * SECOND, 'the record starts long before its first artifact was signed');
    mismatch(finished !== undefined && to - finished > SKEW, 'the record ends before its last artifact was signed');
  }
  mismatch(finished !== undefined && (finished < started || finished > BigInt(now) * SECOND + SKEW),
    'the record ends before it starts, or in the future');
  if (tokenOf(r, 'sessionReceipt') === '') return;
  const head = await headOf(r);
  const said = r.interactions;
  mismatch(Boolean(head) !== Boolean(said) || (head && (said.number !== head.number ||
    (said.head ?? '') !== (head.headHash ?? '') || (said.open ?? []).join('\n') !== (head.openCalls ?? []).join('\n'))),
    'the record and its session receipt name different interaction receipts');
}

/** Names the members whose values no signature holds. receipt is the post's own, if there is one. */
export function unproven(checks: Check[], receipt: Claims | undefined, state: string): string[] {
  const held = (name: string): boolean => checks.some((k) => k.name === name && k.code === '');
  const [trigger, session, api] = [held(CHECKS.trigger), held(CHECKS.session), held(ANSWER_KEY)];
  const outcome = receipt !== undefined && receipt.outcome !== 'indeterminate';
  const members: [string, boolean][] = [
    ['id', receipt !== undefined],
    ['state', (api && state === 'forwarded') || (outcome && receipt.outcome === 'completed')], ['session', session],
    ['event', trigger], ['rule', false], ['subject', trigger], ['action', trigger], ['resource', trigger],
    ['method', trigger], ['host', api], ['path', trigger], ['scheme', api], ['via', false],
    ['queryNames', false], ['carries', false], ['mcp', false], ['graphql', false], ['unfit', false],
    ['message', trigger], ['result', false], ['tools', false], ['model', false], ['interactions', session],
    ['contentHash', trigger], ['bindingHash', trigger], ['capabilityId', held(CHECKS.proof)],
    ['started', receipt !== undefined], ['finished', false], ['manifest', held(CHECKS.deployment)],
    ['code', false], ['step', false], ['reason', false],
    ['status', api || outcome], ['answer', api], ['bytesOut', false], ['bytesIn', false],
    ['artifacts', receipt !== undefined], ['checks', false], ['steps', false],
  ];
  return members.filter(([, proven]) => !proven).map(([name]) => name);
}

/** Whose word the outcome of a verified record is. */
export function whose(r: PostRecord, checks: Check[]): string {
  if (!r.answer) return "the mediator's word";
  return checks.some(({ name, code }) => name === ANSWER_KEY && code === '')
    ? `the word of the API with the key ${r.answer.keyId}`
    : `signed by the key ${r.answer.keyId}; --api-keys would show whether that is the API's`;
}
