// Texts, bytes, hashes and signatures. All cryptography here and elsewhere is WebCrypto's, or its equal in Node.

export type Bytes = Uint8Array<ArrayBuffer>;

const encoder = new TextEncoder();

export const utf8 = (text: string): Bytes => encoder.encode(text);
/** The length of a text in bytes. */
export const sizeOf = (text: string): number => utf8(text).length;

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The text of UTF-8, or nothing if it is not UTF-8. A byte order mark stays. */
export function textOf(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

// WebCrypto hands each small job to another thread, which costs more than the job: a chain has about twenty.
const node = globalThis.process?.getBuiltinModule?.('node:crypto');

export const sha256 = async (bytes: Uint8Array): Promise<Bytes> => new Uint8Array(node
  ? node.hash('sha256', bytes, 'buffer') : await crypto.subtle.digest('SHA-256', bytes as Bytes));

/** The lowercase hexadecimal SHA-256. */
export const hash = async (of: string | Uint8Array): Promise<string> => (node
  ? node.hash('sha256', of) : hex(await sha256(typeof of === 'string' ? utf8(of) : of)));

/** Whether a signature by Ed25519 is right. */
export const verifies = async (key: CryptoKey, signature: Uint8Array, message: Uint8Array): Promise<boolean> => (node
  ? node.verify(null, message, node.KeyObject.from(key), signature)
  : crypto.subtle.verify('Ed25519', key, signature as Bytes, message as Bytes));

/** HMAC with SHA-256. */
export const hmac = async (secret: Bytes, message: Bytes): Promise<Bytes> => new Uint8Array(node
  ? node.createHmac('sha256', secret).update(message).digest()
  : await crypto.subtle.sign('HMAC', await crypto.subtle.importKey('raw', secret, { name: 'HMAC', hash: 'SHA-256' },
    false, ['sign']), message));

const DIGITS = Array.from({ length: 256 }, (_, b) => b.toString(16).padStart(2, '0'));

export function hex(bytes: Uint8Array): string {
  let out = '';
  for (const b of bytes) out += DIGITS[b];
  return out;
}

/** The hash of a token covers its header and payload as sent, without the signature. */
export const tokenHash = (token: string): Promise<string> =>
  hash(token.slice(0, Math.max(0, token.lastIndexOf('.'))));

export const isHash = (text: unknown): boolean => typeof text === 'string' && /^[0-9a-f]{64}$/.test(text);

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

/** Unpadded base64url. */
export function toBase64url(bytes: Uint8Array): string {
  if (node) return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('base64url');
  let out = '';
  for (let i = 0; i < bytes.length; i += 3) {
    const group = (bytes[i]! << 16) | ((bytes[i + 1] ?? 0) << 8) | (bytes[i + 2] ?? 0);
    const digits = Math.min(4, bytes.length - i + 1);
    for (let d = 0; d < digits; d++) out += ALPHABET[(group >> (18 - 6 * d)) & 63];
  }
  return out;
}

/** The bytes of unpadded base64url without line breaks or stray bits, or nothing. */
export function fromBase64url(text: string): Bytes | undefined {
  try {
    const bytes = node ? new Uint8Array(Buffer.from(text, 'base64url'))
      : Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0));
    return toBase64url(bytes) === text ? bytes : undefined; // both decoders take other spellings, too
  } catch {
    return undefined;
  }
}

/** Padded base64. */
export const toBase64 = (bytes: Uint8Array): string => btoa(String.fromCharCode(...bytes));

/** The bytes of padded base64 without line breaks, or nothing. */
export const fromBase64 = (text: string): Bytes | undefined =>
  (/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(text)
    ? Uint8Array.from(atob(text), (c) => c.charCodeAt(0)) : undefined);

export function concat(...parts: Uint8Array[]): Bytes {
  const all = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  parts.reduce((at, part) => (all.set(part, at), at + part.length), 0);
  return all;
}

export const equal = (a: Uint8Array, b: Uint8Array): boolean =>
  a.length === b.length && a.every((v, i) => v === b[i]);

/** Compares texts in a time that depends on their lengths alone. */
export function sameSecret(a: string, b: string): boolean {
  let differs = a.length ^ b.length;
  for (let i = 0; i < a.length; i++) differs |= a.charCodeAt(i) ^ (b.charCodeAt(i) || 0);
  return differs === 0;
}

/** A random identifier of 128 bits. */
export const newId = (): string => toBase64url(crypto.getRandomValues(new Uint8Array(16)));
