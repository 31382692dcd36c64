// Verifies tokens with jose, against the JWKS that the mediator publishes. Standard input is {"jwks", "tokens": [{"typ", "token"}]};
// the output is one line for each token: the kid and the payload's hash, or "refused" and jose's code.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { compactVerify, createLocalJWKSet } from 'jose';

const { jwks, tokens } = JSON.parse(readFileSync(0, 'utf8'));
const keys = createLocalJWKSet(jwks);
for (const { typ, token } of tokens) {
  try {
    const { payload, protectedHeader } = await compactVerify(token, keys, { algorithms: ['EdDSA'] });
    if (protectedHeader.typ !== typ) throw Object.assign(new Error('typ'), { code: `typ ${protectedHeader.typ}` });
    console.log(`${protectedHeader.kid} ${createHash('sha256').update(payload).digest('hex')}`);
  } catch (error) {
    console.log(`refused ${error.code ?? error}`);
  }
}
