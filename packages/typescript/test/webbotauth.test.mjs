// The vectors of draft-ietf-webbotauth, with the Ed25519 key of RFC 9421.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { contentDigest, thumbprint } from '../dist/httpsig.js';
import { verifyWebBotAuth } from '../dist/webbotauth.js';

const at = 'https://signature-agent.test';
const keyid = 'poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U';
const directory = JSON.stringify({ keys: [{ kty: 'OKP', crv: 'Ed25519', kid: 'any',
  x: 'JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs' }] });
const now = 1735689600_000;
const request = (agent, component, expires, nonce, signature) => ({ method: 'GET', url: 'https://example.com/foo',
  headers: {
    'signature-agent': agent, signature: `sig2=:${signature}:`,
    'signature-input': `sig2=("@authority" ${component});created=1735689600;keyid="${keyid}";alg="ed25519";` +
      `expires=${expires};nonce="${nonce}";tag="web-bot-auth"`,
  } });
const current = request(`agent2="${at}"`, '"signature-agent";key="agent2"', 4889289600,
  'n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA==',
  'RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg==');
const earlier = request(`"${at}"`, '"signature-agent"', 1735693200,
  'e8N7S2MFd/qrd6T2R3tdfAuuANngKI7LFtKYI/vowzk4lAZYadIX6wW25MwG7DCT9RUKAJ0qVkU0mEeLElW1qg==',
  'jdq0SqOwHdyHr9+r5jw3iYZH6aNGKijYp/EstF4RQTQdi5N5YYKrD+mCT1HA1nZDsi6nJKuHxUi/5Syp3rLWBA==');

test('the draft\'s requests verify, of the present form and of an earlier one', async () => {
  for (const r of [current, earlier]) {
    const { status, keyId, agent } = await verifyWebBotAuth(r, directory, now);
    assert.deepEqual([status, keyId, agent], ['verified', keyid, at]);
  }
});

test('others are refused, or absent, or cannot be judged', async () => {
  const changed = (name, value) => ({ ...current, headers: { ...current.headers, [name]: value } });
  const also = (members) => JSON.stringify({ keys: [null, { ...JSON.parse(directory).keys[0], ...members }] });
  const input = current.headers['signature-input'];
  for (const [name, r, keys, when, status] of [
    ['another host', { ...current, url: 'https://example.org/foo' }, directory, now, 'refused'],
    ['another agent', changed('signature-agent', 'agent2="https://other.test"'), directory, now, 'refused'],
    ['another key', current, directory.replace('JrQL', 'JrQM'), now, 'refused'],
    ['a key that has ended', current, also({ exp: now / 1000 }), now, 'refused'],
    ['a key that has not begun', current, also({ nbf: now / 1000 + 1 }), now, 'refused'],
    ['a key with an odd time', current, also({ exp: 'soon' }), now, 'refused'],
    ['a key for something else', current, also({ use: 'enc' }), now, 'refused'],
    ['a key that is good', current, also({ use: 'sig', nbf: now / 1000, exp: now / 1000 + 1 }), now, 'verified'],
    ['too late', earlier, directory, now + 4000_000, 'refused'],
    ['too early', current, directory, now - 60_000, 'refused'],
    ['an agent that is not signed', changed('signature-input', input.replace(' "signature-agent";key="agent2"', '')),
      directory, now, 'refused'],
    ['no end', changed('signature-input', input.replace('expires=4889289600;', '')), directory, now, 'refused'],
    ['malformed', changed('signature-input', 'sig2=('), directory, now, 'refused'],
    ['another tag', changed('signature-input', input.replace('web-bot-auth', 'other')), directory, now, 'absent'],
    ['none', { ...current, headers: {} }, directory, now, 'absent'],
    ['no directory', current, '{}', now, 'unavailable'],
  ]) assert.equal((await verifyWebBotAuth(r, keys, when)).status, status, name);
});

test('a signed digest is of SHA-256, and the body is compared with it', async () => {
  const { privateKey, publicKey } = await crypto.subtle.generateKey('Ed25519', true, ['sign', 'verify']);
  const x = new Uint8Array(await crypto.subtle.exportKey('raw', publicKey));
  const id = await thumbprint(x);
  const keys = JSON.stringify({ keys: [{ kty: 'OKP', crv: 'Ed25519', x: Buffer.from(x).toString('base64url') }] });
  const body = Buffer.from('{}');
  const digest = contentDigest(new Uint8Array(await crypto.subtle.digest('SHA-256', body)));
  const judge = async (component, rawBody) => {
    const headers = { 'content-digest': `${digest}, sha-512=:AAAA:` };
    const r = { method: 'POST', url: 'https://example.com/foo', headers };
    const params = `("@authority" ${component});created=${now / 1000};keyid="${id}";expires=${now / 1000 + 60};` +
      'tag="web-bot-auth"';
    const value = component.includes('sha-512') ? ':AAAA:' : component.includes('key') ? digest.slice('sha-256='.length)
      : headers['content-digest'];
    const base = `"@authority": example.com\n${component}: ${value}\n"@signature-params": ${params}`;
    const signature = Buffer.from(await crypto.subtle.sign('Ed25519', privateKey, Buffer.from(base)));
    Object.assign(headers, { 'signature-input': `a=${params}`, signature: `a=:${signature.toString('base64')}:` });
    return (await verifyWebBotAuth({ ...r, rawBody }, keys, now)).status;
  };
  for (const component of ['"content-digest"', '"content-digest";key="sha-256"']) {
    assert.equal(await judge(component, body), 'verified', component);
    assert.equal(await judge(component, Buffer.from('[]')), 'refused', component);
  }
  assert.equal(await judge('"content-digest";key="sha-512"', body), 'refused');
});
