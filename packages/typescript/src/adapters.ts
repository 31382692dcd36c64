// Adapters for servers. Each takes the raw body before any parser, judges, and refuses the request or passes it on.
import { type Answering, type HeldResponse, type SigningKey, answering, joined, signNode, signResponse }
  from './answer.js';
import type { Bytes } from './bytes.js';
import type { Gate, Route, Verdict } from './gate.js';
import { codeOf } from './refusal.js';
import { HeaderList, type HeadersLike } from './request.js';

export interface Protect extends Route {
  /** observe passes every request on, with its verdict; enforce refuses all but verified ones, each once. */
  mode: 'observe' | 'enforce';
  /** Bytes; 1 MiB. */
  maxBody?: number;
  /** Leave using the evidence up to the handler, in its transaction: await verdict.consume(postgresStore(client)). */
  consumeInHandler?: boolean;
  /** Signs the answers to verified posts, for the mediator and its record: await signingKey(pem). */
  sign?: SigningKey;
  /** Gets each verdict that is not verified: answers hold only its code. */
  onRefused?: (verdict: Verdict) => void;
}

// HTTP statuses of codes; all others are 403.
const STATUS: Record<string, number> = {
  proof_missing: 401, query_malformed: 400, content_malformed: 422, content_incomplete: 400, request_malformed: 400,
  override_refused: 400, replayed: 409, content_too_large: 413, config_malformed: 500, internal: 500,
  trust_stale: 503,
};

/** The problem of a verdict: only a fault of this server's own setup is named to the caller. */
export const refusalOf = ({ code, detail }: Verdict) => problemOf(code, detail === PARSED ? detail : undefined);

/** An answer to send. */
export interface Answer { status: number; headers: Record<string, string>; body: string }

/** The problem document (RFC 9457) of a code. */
export function problemOf(code: string, sentence?: string): Answer {
  const status = STATUS[code] ?? 403;
  const headers: Record<string, string> = { 'content-type': 'application/problem+json; charset=utf-8',
    'cache-control': 'no-store' };
  if (code === 'proof_missing') headers['www-authenticate'] = 'ActionProof';
  const type = `https://github.com/actionproof/mediator/blob/main/docs/errors.md#${code}`;
  const title = `The evidence of this post is not accepted: ${code}`;
  const detail = sentence ?? title;
  return { status, headers,
    body: `${JSON.stringify({ type, title, status, detail, code, step: 'gate', remedy: '', message: detail,
      error: { code, message: detail } })}\n` };
}

/** A verdict for a request whose body could not be had. */
function unread(code: string, detail: string): Verdict {
  const v: Verdict = { status: detail === PARSED ? 'unavailable' : 'refused', code, detail, consume: async () => v };
  return v;
}

const PARSED = 'a body parser ran before this middleware, so the hash of the body cannot be known: ' +
  'mount the middleware before it';

/** A judged request: pass says whether the handler gets it, and to how its answer is signed. */
interface Judged { verdict: Verdict; pass: boolean; rawBody: Bytes; to: Answering | undefined }

/**
 * Judges a request whose body is read here. The caller sends the problem of a verdict that is returned as refused.
 */
async function judged(gate: Gate, p: Protect, method: string, url: string, headers: HeadersLike,
  body: () => Promise<Bytes | Verdict>): Promise<Judged> {
  const rawBody = await body().catch((): Verdict => unread('content_incomplete',
    'the body ended early or could not be read'));
  let verdict = rawBody instanceof Uint8Array ? await gate.verify({ method, url, headers, rawBody }, p) : rawBody;
  if (verdict.status === 'verified' && p.mode === 'enforce' && !p.consumeInHandler) verdict = await verdict.consume();
  if (verdict.status !== 'verified') p.onRefused?.(verdict);
  const read = rawBody instanceof Uint8Array;
  return { verdict, pass: read && (verdict.status === 'verified' || p.mode === 'observe'),
    rawBody: read ? rawBody : new Uint8Array(),
    to: read ? await answering(p.sign, p, verdict, new HeaderList(headers), rawBody) : undefined };
}

/** Reads at most limit bytes of a web stream. */
async function bytesOf(stream: ReadableStream<Uint8Array> | null, limit: number): Promise<Bytes | Verdict> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  const reader = stream?.getReader();
  for (let next = await reader?.read(); next && !next.done; next = await reader!.read()) {
    if ((size += next.value.length) <= limit) chunks.push(next.value); // the rest is read, so that the answer arrives
  }
  return size > limit ? unread('content_too_large', `the body is larger than ${limit} bytes`) : joined(chunks, size);
}

/** A handler of web requests, as in Deno, Bun, Workers and Next.js. */
export type FetchHandler = (request: globalThis.Request, verdict: Verdict) => Response | Promise<Response>;

/** Protects a handler of web requests. The handler gets the request with its body unread. */
export function protectFetch(gate: Gate, p: Protect, handler: FetchHandler):
  (request: globalThis.Request) => Promise<Response> {
  return async (request) => {
    const { method, headers, signal, url } = request;
    const { verdict, pass, rawBody, to } = await judged(gate, p, method, url, headers, async () =>
      request.bodyUsed ? unread('config_malformed', PARSED) : bytesOf(request.body, p.maxBody ?? 1 << 20));
    if (!pass) return webProblem(verdict);
    const body = ['GET', 'HEAD'].includes(method) ? {} : { body: rawBody };
    const again = new Request(url, { method, headers, signal, ...body });
    const answer = await handler(again, verdict);
    return to ? signResponse(to, answer, new HeaderList(answer.headers)) : answer;
  };
}

function webProblem(verdict: Verdict): Response {
  const { status, headers, body } = refusalOf(verdict);
  return new Response(body, { status, headers });
}

/** The part of Hono's context that is used here. */
interface HonoContext {
  req: { raw: globalThis.Request };
  res: Response | undefined;
  set(name: 'actionproof', verdict: Verdict): void;
}

/** Middleware for Hono 4: c.get('actionproof') is the verdict. */
export function hono(gate: Gate, p: Protect) {
  return async (c: HonoContext, next: () => Promise<void>): Promise<Response | void> => {
    const inner = protectFetch(gate, p, async (request, verdict) => {
      c.req.raw = request;
      c.set('actionproof', verdict);
      await next();
      passed = c.res;
      return passed!;
    });
    let passed: Response | undefined;
    const answer = await inner(c.req.raw);
    if (!passed) return answer;
    if (answer === passed) return undefined;
    c.res = undefined; // Hono would add the headers of the unsigned one
    c.res = answer;
    return undefined;
  };
}

/** The part of Node's request that is used here. */
export interface NodeRequest extends AsyncIterable<Uint8Array> {
  method?: string | undefined;
  url?: string | undefined;
  originalUrl?: string;
  rawHeaders: string[];
  rawTrailers: string[];
  readableDidRead: boolean;
  body?: unknown;
  rawBody?: Uint8Array;
  actionproof?: Verdict;
}

export interface NodeResponse extends HeldResponse {}

const listOf = (response: NodeResponse): HeaderList => new HeaderList(Object.entries(response.getHeaders())
  .flatMap(([name, value]) => [value ?? []].flat().map((one): [string, string] => [name, String(one)])));

/** Judges a request of Node. Its body is read from stream. The answer to a verified one is signed, if p says so. */
export async function judgeNode(gate: Gate, p: Protect, request: NodeRequest, response: NodeResponse,
  stream: AsyncIterable<Uint8Array> = request): Promise<Judged> {
  const raw = request.rawHeaders;
  const headers = Array.from({ length: raw.length / 2 }, (_, i): [string, string] => [raw[2 * i]!, raw[2 * i + 1]!]);
  const limit = p.maxBody ?? 1 << 20;
  const url = request.originalUrl ?? request.url ?? '';
  const out = await judged(gate, p, request.method ?? '', url, headers, async () => {
    if (request.readableDidRead) return unread('config_malformed', PARSED);
    const chunks: Uint8Array[] = [];
    let size = 0;
    for await (const chunk of stream) if ((size += chunk.length) <= limit) chunks.push(chunk);
    if (size > limit) return unread('content_too_large', `the body is larger than ${limit} bytes`);
    if (request.rawTrailers.length > 0) return unread('request_malformed',
      'the request has trailers, which no hash covers');
    return joined(chunks, size);
  });
  request.rawBody = out.rawBody;
  request.actionproof = out.verdict;
  if (out.pass && out.to) signNode(out.to, response, listOf);
  return out;
}

/**
 * Middleware for Express 5 and other servers of Node: req.actionproof is the verdict, req.rawBody the bytes, and
 * req.body the JSON, or the bytes with raw. Parsers after it leave the body alone.
 */
export function express(gate: Gate, p: Protect) {
  return async (request: NodeRequest, response: NodeResponse, next: (error?: unknown) => void): Promise<void> => {
    const { verdict, pass, rawBody } = await judgeNode(gate, p, request, response);
    if (!pass) return send(response, refusalOf(verdict));
    request.body = bodyOf(rawBody, p);
    Object.assign(request, { _body: true }); // body-parser's sign that the body is read
    next();
  };
}

function bodyOf(raw: Uint8Array, p: Protect): unknown {
  try {
    return p.raw ? raw : JSON.parse(new TextDecoder().decode(raw));
  } catch {
    return undefined; // only observed
  }
}

function send(response: NodeResponse, { status, headers, body }: Answer): void {
  response.statusCode = status;
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  response.end(body as never);
}

/** What a mediator calls at an API. */
export type Endpoint = 'challenge' | 'verify';

/**
 * The two endpoints that a mediator calls: POST challenge and POST verify. Neither authenticates callers: limit the
 * rate. For other servers than those of web requests, see respond.
 */
export function endpoints(gate: Gate): Record<Endpoint, (request: globalThis.Request) => Promise<Response>> {
  const handle = (which: Endpoint) => async (request: globalThis.Request) => {
    const body = await bytesOf(request.body, 256 * 1024).catch(() => unread('query_malformed',
      'the request broke off'));
    const { status, headers, body: text } = body instanceof Uint8Array ? await respond(gate, which, body)
      : problemOf('query_malformed');
    return new Response(text, { status, headers });
  };
  return { challenge: handle('challenge'), verify: handle('verify') };
}

/** What to answer to a body that was posted to one of the two endpoints. */
export async function respond(gate: Gate, which: Endpoint, body: string | Uint8Array) {
  try {
    const headers = { 'content-type': 'application/json', 'cache-control': 'no-store' };
    if (which === 'challenge') return { status: 200, headers, body: JSON.stringify(await gate.challenge(body)) };
    const { code, answer } = await gate.admit(body);
    return answer ? { status: 200, headers, body: JSON.stringify(answer) } : problemOf(code);
  } catch (error) {
    return problemOf(codeOf(error));
  }
}

/** A handler of Node's requests, as in Express and node:http, for one of the two endpoints. */
export function nodeEndpoint(gate: Gate, which: Endpoint) {
  return async (request: NodeRequest, response: NodeResponse): Promise<void> => {
    const chunks: Uint8Array[] = [];
    let size = 0;
    for await (const chunk of request) if ((size += chunk.length) <= 256 * 1024) chunks.push(chunk);
    send(response, await respond(gate, which, size <= 256 * 1024 ? joined(chunks, size) : ''));
  };
}
