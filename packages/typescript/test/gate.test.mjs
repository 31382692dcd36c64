import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Gate, memoryStore, redisStore } from '../dist/index.js';
import { Kit } from '../dist/kit.js';

const of = { name: 'api', subject: 'agent:worker-1', action: 'create_post' };
const post = { method: 'POST', url: '/posts', body: '{"text":"hello"}', authorization: 'Bearer upstream' };
const kit = await Kit.make(of);
const open = (store = memoryStore()) => Gate.open(kit.files, { name: of.name, store });
const request = (headers, change = {}) => ({ method: post.method, url: post.url, headers,
  rawBody: Buffer.from(post.body), ...change });

test('a post is verified, and good once', async () => {
  const gate = await open();
  const asked = request(await kit.headers(post));
  const v = await gate.verify(asked, of);
  assert.equal(v.code, 'ok', v.detail);
  assert.equal(v.post.trigger.source, 'hooks');
  assert.equal((await v.consume()).status, 'verified');
  assert.equal((await v.consume()).code, 'replayed');
  assert.equal((await (await gate.verify(asked, of)).consume()).code, 'replayed');
});

test('a whole chain earns a capability once', async () => {
  const gate = await open();
  const chain = await kit.chain(gate, post);
  const v = await gate.admit(chain);
  assert.equal(v.code, 'ok', v.detail);
  assert.deepEqual(Object.keys(v.answer).sort(), ['bindingHash', 'capability', 'capabilityId', 'expiresAt']);
  assert.equal((await gate.admit(chain)).code, 'replayed');
  const human = { 'agent-session-receipt+jwt': (c) => { c.humanPromptPresent = true; } };
  assert.equal((await gate.admit(await kit.chain(gate, post, human))).code, 'human_involved');
});

test('refusals', async () => {
  const gate = await open();
  const headers = await kit.headers(post);
  const proof = (change) => kit.headers(post, { 'request-proof+jwt': change });
  for (const [asked, status, code] of [
    [request({}), 'absent', 'proof_missing'],
    [request({ ...headers, 'actionproof-capability': undefined }), 'refused', 'proof_missing'],
    [request(new Headers([...Object.entries(headers), ...Object.entries(headers)])), 'refused', 'proof_missing'],
    [request(headers, { rawBody: Buffer.from('{"text":"other"}') }), 'refused', 'artifacts_mismatch'],
    [request(headers, { rawBody: Buffer.from('{"text":"hello","text":"x"}') }), 'refused', 'content_malformed'],
    [request(headers, { url: '/posts?_method=PUT' }), 'refused', 'override_refused'],
    [request({ ...headers, authorization: 'Bearer stolen' }), 'refused', 'proof_access_token'],
    [request({ ...headers, 'content-type': 'application/json; charset=utf-7; charset*=x\'\'y' }), 'refused',
      'content_malformed'],
    [request({ ...headers, trailer: 'x' }), 'refused', 'request_malformed'],
    [request(await proof((c) => { c.iat -= 60; c.exp -= 60; })), 'refused', 'expired'],
    [request(await proof((c) => { c.iss = 'other'; })), 'refused', 'key_purpose'],
  ]) {
    const v = await gate.verify(asked, of);
    assert.deepEqual([v.status, v.code], [status, code], v.detail);
  }
});

test('nothing that is given makes verify throw', async () => {
  const gate = await open();
  for (const bad of [null, undefined, {}, request(null), request({}, { url: undefined }), request(5),
    request({ a: 5 }),
    request(await kit.headers(post), { rawBody: undefined }), request({ 'actionproof-capability': '\ud800' })]) {
    const v = await gate.verify(bad, of);
    assert.notEqual(v.status, 'verified');
    assert.equal((await v.consume()).status, v.status);
  }
});

test('a store that cannot tell makes a post unavailable', async () => {
  const gate = await open({ consume: async () => { throw new Error('down'); } });
  const v = await (await gate.verify(request(await kit.headers(post)), of)).consume();
  assert.deepEqual([v.status, v.code], ['unavailable', 'internal']);
});

test('a proxy that changes the path is told by publicURL', async () => {
  const gate = await open();
  const headers = await kit.headers({ ...post, url: '/v1/posts?a=1' });
  const asked = request(headers, { url: '/posts?a=1' });
  assert.equal((await gate.verify(asked, of)).code, 'artifacts_mismatch');
  assert.equal((await gate.verify(asked, { ...of, publicURL: 'https://api.example.com/v1/' })).code, 'ok');
});

test('old trust is unavailable, and a weak or rolled back one refused', async () => {
  let now = Date.now();
  const gate = await Gate.open(kit.files, { name: of.name, store: memoryStore(), now: () => now });
  const weak = { ...kit.files, manifest: kit.files.manifest.replace('"consumeCapability":true',
    '"consumeCapability":false') };
  await assert.rejects(gate.reload(weak), { code: 'deployment_unsafe' });
  await assert.rejects(gate.reload({ ...kit.files, bundle: '{"certificates":["x"]}' }),
    { code: 'artifact_malformed' });
  await assert.rejects(gate.reload({ ...weak, bundle: '{}' }), { code: 'deployment_unsafe' });
  assert.equal((await gate.verify(request(await kit.headers(post)), of)).code, 'key_unknown'); // the bundle counts
  await gate.reload(kit.files);
  now += 601_000;
  const v = await gate.verify(request(await kit.headers(post)), of);
  assert.deepEqual([v.status, v.code], ['unavailable', 'trust_stale']);
  await gate.reload(kit.files);
  assert.equal((await gate.verify(request(await kit.headers(post)), of)).code, 'expired');
});

test('the memory store is for all keys or none', async () => {
  const store = memoryStore();
  const key = (id) => ({ kind: 'capability', id, expires: Date.now() / 1000 + 60 });
  assert.equal(await store.consume([key('a')]), true);
  assert.equal(await store.consume([key('b'), key('a')]), false);
  assert.equal(await store.consume([key('b')]), true);
  assert.equal(await redisStore(async () => 0).consume([key('a')]), false);
});
