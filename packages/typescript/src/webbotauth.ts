// Web Bot Auth (draft-ietf-webbotauth): the signature of a request by an agent's operator, without any evidence.
import { type Bytes, equal, fromBase64url, sha256 } from './bytes.js';
import { type Keys, SignatureError, readContentDigest, thumbprint, verifyMessage } from './httpsig.js';
import { strictJSON } from './json.js';
import { Refusal } from './refusal.js';
import { HeaderList, type HeadersLike } from './request.js';
import { parseDictionary } from './sfv.js';

const TAG = 'web-bot-auth';
const MAX_DIRECTORY = 256 * 1024;
const MAX_AGE = 86_400;
const SKEW = 5;
const DIGESTS = ['"content-digest"', '"content-digest";key="sha-256"'];

/** What a signature shows: only a verified one shows who signed. */
export interface BotVerdict {
  /** absent: there is no such signature. unavailable: the directory cannot be read. */
  status: 'verified' | 'refused' | 'absent' | 'unavailable';
  code: string;
  detail: string;
  /** The thumbprint of the key, and the origin of its directory as the request names it. */
  keyId?: string;
  agent?: string;
  /** The components that are signed. */
  covered?: string[];
}

export interface BotRequest {
  method: string;
  /** Absolute, as the agent addressed it. */
  url: string;
  headers: HeadersLike;
  /** The body as it came. Without it, a body is not verified. */
  rawBody?: Uint8Array;
}

/**
 * Verifies the signature of a request with an agent's directory: the JSON that its origin serves at
 * /.well-known/http-message-signatures-directory. Choose the directory yourself: a request can name anybody's. It never
 * throws for bad input.
 */
export async function verifyWebBotAuth(request: BotRequest, directory: string, now = Date.now()): Promise<BotVerdict> {
  const headers = new HeaderList(request.headers);
  const inputs = parseDictionary(headers.all('signature-input'));
  if (inputs && ![...inputs.values()].some(({ params }) => params.get('tag') === TAG)) {
    return { status: 'absent', code: 'proof_missing', detail: 'the request has no signature of Web Bot Auth' };
  }
  let keys: Keys;
  try {
    keys = await keysIn(directory, now / 1000);
  } catch (error) {
    return { status: 'unavailable', code: 'trust_malformed', detail: (error as Error).message };
  }
  try {
    const named = headers.all('signature-agent').length > 0;
    const { method, url } = request;
    const signed = await verifyMessage({ method, url, headers }, { components: [], keys, tag: TAG,
      now: Math.floor(now / 1000), maxAge: MAX_AGE, skew: SKEW });
    const { covered, params } = signed;
    const covers = (name: string): boolean => covered.some((id) => id === `"${name}"` || id.startsWith(`"${name}";`));
    if (params.expires === undefined || (!covers('@authority') && !covers('@target-uri'))) {
      throw new SignatureError('the signature does not end, or does not cover the authority');
    }
    if (named && !covers('signature-agent')) throw new SignatureError('the signature does not cover its agent');
    if (covered.some((id) => id.startsWith('"content-digest"') && !DIGESTS.includes(id))) {
      throw new SignatureError('the signature covers another digest than SHA-256');
    }
    const digest = readContentDigest(headers);
    if (covers('content-digest') && request.rawBody &&
      !(digest && equal(digest, await sha256(request.rawBody as Bytes)))) {
      throw new SignatureError('the body is not the signed one');
    }
    const agent = agentOf(headers);
    return { status: 'verified', code: 'ok', detail: 'the key of the directory has signed the request',
      keyId: params.keyid ?? '', ...(agent !== undefined && { agent }), covered };
  } catch (error) {
    const detail = (error as Error).message;
    return error instanceof SignatureError || error instanceof Refusal
      ? { status: 'refused', code: 'signature_invalid', detail }
      : { status: 'unavailable', code: 'internal', detail };
  }
}

/** The Ed25519 keys of a directory that sign now (Unix seconds), by their thumbprints: names are not believed. */
async function keysIn(directory: string, now: number): Promise<Keys> {
  const set = directory.length <= MAX_DIRECTORY ? strictJSON(directory) as { keys?: unknown } | null : null;
  const list = Array.isArray(set?.keys) ? set.keys as Record<string, unknown>[] : [];
  const keys: Keys = new Map();
  let found = false;
  for (const jwk of list) {
    const isKey = jwk?.kty === 'OKP' && jwk.crv === 'Ed25519' && typeof jwk.x === 'string';
    const x = isKey ? fromBase64url(jwk.x as string) : undefined;
    if (x?.length !== 32) continue;
    found = true;
    const { use = 'sig', nbf = now, exp = Infinity } = jwk;
    const signs = use === 'sig' && typeof nbf === 'number' && typeof exp === 'number' && nbf <= now && now < exp;
    if (signs) keys.set(await thumbprint(x), x);
  }
  if (!found) throw new Error('the directory has no Ed25519 key');
  return keys;
}

/** The agent's origin: a dictionary's one member, or a string of earlier drafts. */
function agentOf(headers: HeaderList): string | undefined {
  const lines = headers.all('signature-agent');
  const members = [...parseDictionary(lines)?.values() ?? []];
  const member = members.length === 1 ? members[0] : parseDictionary([`a=${lines.join(', ')}`])?.get('a');
  return member && 'value' in member && typeof member.value === 'string' ? member.value : undefined;
}
