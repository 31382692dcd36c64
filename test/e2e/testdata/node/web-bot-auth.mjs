// Verifies requests by Web Bot Auth as an edge does, with the directory alone. Standard input is {"directory": URL, "requests":
// [{"method", "url", "headers": [[name, value]], "body": base64}]}; the output is a line for each: the package, the form and the
// keyid, or "refused" and why. npm's web-bot-auth knows the form of the earlier drafts, http-message-sig that of the current one.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { component, verifySignature, webcrypto } from 'http-message-sig';
import { jwkToKeyID, helpers, verify } from 'web-bot-auth';
import { verifierFromJWK } from 'web-bot-auth/crypto';

const { directory, requests } = JSON.parse(readFileSync(0, 'utf8'));
const answer = await fetch(directory);
if (answer.headers.get('content-type') !== 'application/http-message-signatures-directory+json') throw new Error('media type');
const keys = new Map();
for (const jwk of (await answer.json()).keys) {
  const thumbprint = await jwkToKeyID(jwk, helpers.WEBCRYPTO_SHA256, helpers.BASE64URL_DECODE);
  if (jwk.kid !== thumbprint) throw new Error(`the kid ${jwk.kid} is not the thumbprint ${thumbprint}`);
  keys.set(thumbprint, jwk);
}
const known = keyid => {
  if (!keys.has(keyid)) throw new Error(`the directory has no key ${keyid}`);
  return keys.get(keyid);
};

async function current(method, url, headers) {
  const fields = headers.map(([name, value]) => ({ name, value }));
  const verified = await verifySignature({ kind: 'request', method, targetUri: url, fields }, {
    policy: {
      algorithms: ['ed25519'], requiredParameters: ['created', 'expires', 'keyid', 'tag', 'nonce'], maxAge: 120,
      requiredComponents: ['@authority', component('signature-agent', { key: 'sig1' })],
      validate: s => s.parameters.tag === 'web-bot-auth',
    },
    async resolveVerifier({ parameters }) {
      const jwk = known(parameters.keyid);
      return webcrypto.verifier(await crypto.subtle.importKey('jwk', jwk, { name: 'Ed25519' }, true, ['verify']));
    },
  });
  return `http-message-sig current ${verified.parameters.keyid}`;
}

async function legacy(method, url, headers) {
  return verify({ method, url, headers: new Headers(headers) }, async (data, signature, params) => {
    await (await verifierFromJWK(known(params.keyid)))(data, signature, params);
    return `web-bot-auth legacy ${params.keyid}`;
  });
}

for (const { method, url, headers, body } of requests) {
  try {
    const get = new Headers(headers);
    const digest = createHash('sha256').update(Buffer.from(body, 'base64')).digest('base64');
    if (method === 'POST' && get.get('content-digest') !== `sha-256=:${digest}:`) throw new Error('content-digest');
    console.log(await (get.get('signature-agent').startsWith('"') ? legacy : current)(method, url, headers));
  } catch (error) {
    console.log(`refused ${error}`);
  }
}
