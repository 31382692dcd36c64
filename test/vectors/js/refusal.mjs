import { createHash } from 'node:crypto';

/** What a verification ends with that does not hold: its code is the verdict. */
export class Refusal extends Error {
  constructor(code) {
    super(code);
    this.code = code;
  }
}

export function refuse(code) {
  throw new Refusal(code);
}

/** Refuses as code where a condition holds. */
export function refuseIf(condition, code) {
  if (condition) refuse(code);
}

export const hash = (bytes) => createHash('sha256').update(bytes).digest('hex');
/** The hash of a token covers its header and payload as sent, without the signature. */
export const tokenHash = (token) => hash(token.slice(0, Math.max(0, token.lastIndexOf('.'))));
export const isHash = (text) => /^[0-9a-f]{64}$/.test(text);
export const bytesIn = (text) => Buffer.byteLength(text);

/** Reads JSON of any spelling; half a surrogate pair is U+FFFD. */
export const looseJSON = (bytes) => JSON.parse(bytes.toString('utf8'), (_, value) => (typeof value === 'string' ? value.replace(/\p{Surrogate}/gu, '\ufffd') : value));
