// Answers that an API signs (RFC 9421): the outcome of a post is then the API's word, and not the mediator's.
import { type Bytes, equal, fromBase64, fromBase64url, sha256 } from './bytes.js';
import type { Route, Verdict } from './gate.js';
import { type Message, type SigningKey, contentDigest, readContentDigest, signMessage, thumbprint } from './httpsig.js';
import { refuse } from './refusal.js';
import type { HeaderList } from './request.js';

export type { SigningKey } from './httpsig.js';

export const ANSWER_TAG = 'actionproof-answer';
export const ANSWER_COMPONENTS = ['@status', 'content-digest', '@method;req', '@target-uri;req', 'content-digest;req',
  'idempotency-key;req'];
/** Bytes of an answer that is held to be signed. A larger one goes out unsigned. */
export const MAX_HELD = 4 << 20;

/** Reads the private key that signs answers: an Ed25519 key as openssl genpkey writes it (config_malformed). */
export async function signingKey(pem: string): Promise<SigningKey> {
  const text = /-----BEGIN PRIVATE KEY-----([^-]*)-----END PRIVATE KEY-----/.exec(pem)?.[1] ?? '';
  const der = fromBase64(text.replace(/\s/g, '')) ?? new Uint8Array();
  const key = await crypto.subtle.importKey('pkcs8', der, 'Ed25519', true, ['sign'])
    .catch(() => refuse('config_malformed', 'the key of answers is not an Ed25519 private key in PEM'));
  const { x = '' } = await crypto.subtle.exportKey('jwk', key);
  return { key, id: await thumbprint(fromBase64url(x)!) };
}

/** The request that an answer will be signed for. */
export interface Answering { by: SigningKey; request: Message }

/** Whether the answer to a request is to be signed: the mediator must have named its capability and its body. */
export async function answering(by: SigningKey | undefined, { publicURL }: Route, { post, status }: Verdict,
  headers: HeaderList, body: Bytes): Promise<Answering | undefined> {
  const named = headers.all('idempotency-key');
  const digest = readContentDigest(headers);
  if (!by || !post || status !== 'verified' || named.length !== 1 || named[0] !== post.capabilityId || !digest ||
    !equal(digest, await sha256(body))) return undefined;
  const [method = '', path = ''] = post.resource.split(' ');
  const origin = /^[a-z][a-z0-9+.-]*:\/\/[^/?#]+/i.exec(publicURL ?? '')?.[0] ?? `https://${headers.get('host')}`;
  return { by, request: { method, url: origin + path, headers } };
}

/** The fields that sign an answer. signed has those that an answer has already. */
export async function signAnswer({ by, request }: Answering, status: number, headers: HeaderList, body: Bytes):
  Promise<Record<string, string>> {
  const digest = contentDigest(await sha256(body));
  const made = await signMessage({ status, headers: headers.with('content-digest', digest), request }, 'actionproof',
    ANSWER_COMPONENTS, by, { created: Math.floor(Date.now() / 1000), tag: ANSWER_TAG });
  const out: Record<string, string> = { 'content-digest': digest };
  for (const [name, value] of Object.entries(made)) out[name] = [...headers.all(name), value].join(', ');
  return out;
}

/** Signs the answer of a handler of web requests. A body that is larger than MAX_HELD passes unsigned. */
export async function signResponse(to: Answering, answer: Response, list: HeaderList): Promise<Response> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  const reader = answer.body?.getReader();
  for (let next = await reader?.read(); next && !next.done; next = await reader!.read()) {
    chunks.push(next.value);
    if ((size += next.value.length) > MAX_HELD) return new Response(rest(chunks, reader!), answer);
  }
  const body = joined(chunks, size);
  const headers = new Headers(answer.headers);
  for (const [name, value] of Object.entries(await signAnswer(to, answer.status, list, body))) headers.set(name, value);
  const { status, statusText } = answer;
  return new Response(answer.body === null ? null : body, { status, statusText, headers });
}

function rest(chunks: Uint8Array[], reader: ReadableStreamDefaultReader<Uint8Array>): ReadableStream<Uint8Array> {
  return new ReadableStream({
    async pull(to) {
      const next = chunks.shift() ?? (await reader.read()).value;
      if (next) to.enqueue(next);
      else to.close();
    },
    cancel: (why) => reader.cancel(why),
  });
}

/** Joins chunks of this size together. */
export function joined(chunks: Uint8Array[], size: number): Bytes {
  const all = new Uint8Array(size);
  chunks.reduce((at, chunk) => (all.set(chunk, at), at + chunk.length), 0);
  return all;
}

/** The part of Node's answer that is used here. */
export interface HeldResponse {
  statusCode: number;
  setHeader(name: string, value: string | readonly string[]): unknown;
  getHeaders(): Record<string, string | number | readonly string[] | undefined>;
  writeHead(...args: never[]): unknown;
  write(...args: never[]): boolean;
  end(...args: never[]): unknown;
  flushHeaders(): void;
}

type Headers2 = Record<string, string | readonly string[]> | (string | readonly string[])[];

/**
 * Holds an answer of Node's until its end, and then signs it. One that is flushed, or larger than MAX_HELD, passes
 * unsigned.
 */
export function signNode(to: Answering, response: HeldResponse, toList: (r: HeldResponse) => HeaderList): void {
  const own = { writeHead: response.writeHead, write: response.write, end: response.end,
    flushHeaders: response.flushHeaders };
  const chunks: Uint8Array[] = [];
  let size = 0;
  let ended = false;
  const pass = (): void => {
    Object.assign(response, own);
    for (const chunk of chunks.splice(0)) own.write.call(response, chunk as never);
  };
  const hold = (chunk: unknown, encoding: unknown): void => {
    if (typeof chunk !== 'string' && !(chunk instanceof Uint8Array)) return;
    const bytes = typeof chunk === 'string'
      ? Buffer.from(chunk, typeof encoding === 'string' ? encoding as BufferEncoding : 'utf8') : chunk;
    chunks.push(bytes);
    size += bytes.length;
  };
  const doneOf = (...args: unknown[]): (() => void) | undefined =>
    args.find((arg) => typeof arg === 'function') as (() => void) | undefined;
  const held: Record<keyof typeof own, (...args: never[]) => unknown> = {
    writeHead(status: number, ...more: unknown[]) {
      response.statusCode = status;
      const headers = more.find((arg) => typeof arg === 'object' && arg !== null) as Headers2 | undefined;
      const pairs = Array.isArray(headers)
        ? headers.flatMap((name, i) => (i % 2 === 0 ? [[name as string, headers[i + 1]!] as const] : []))
        : Object.entries(headers ?? {});
      for (const [name, value] of pairs) response.setHeader(name, value);
      return response;
    },
    write(chunk: unknown, encoding: unknown, done: unknown) {
      hold(chunk, encoding);
      if (size > MAX_HELD) pass();
      const call = doneOf(encoding, done);
      if (call) queueMicrotask(call);
      return true;
    },
    end(chunk: unknown, encoding: unknown, done: unknown) {
      if (ended) return response;
      ended = true;
      hold(chunk, encoding);
      const finish = (body: Bytes): void => {
        Object.assign(response, own);
        own.end.call(response, ...[body, doneOf(chunk, encoding, done)].filter((arg) => arg !== undefined) as never[]);
      };
      const body = joined(chunks, size);
      signAnswer(to, response.statusCode, toList(response), body).then((fields) => {
        for (const [name, value] of Object.entries(fields)) response.setHeader(name, value);
        finish(body);
      }, () => finish(body));
      return response;
    },
    flushHeaders() {
      pass();
      response.flushHeaders();
    },
  };
  Object.assign(response, held);
}
