// The README, literally: the packed package is installed into a fresh project, whose servers are started and called.
// EXPORT names a folder with an export of 10 posts and the keys of its roots.
import assert from 'node:assert/strict';
import { execFileSync, execSync, spawn } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { request as httpRequest } from 'node:http';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { after, before, test } from 'node:test';

const home = fileURLToPath(new URL('..', import.meta.url));
const project = mkdtempSync(join(tmpdir(), 'verifier-'));
const readme = readFileSync(join(home, 'README.md'), 'utf8');
const post = { method: 'POST', url: '/posts', body: '{"text":"hello"}', authorization: 'Bearer upstream' };
let kit;

before(async () => {
  const npm = (...args) => execFileSync('npm', args, { cwd: project, stdio: ['ignore', 'pipe', 'inherit'],
    encoding: 'utf8' });
  writeFileSync(join(project, 'package.json'), '{}'); // else npm would look for one in the folders above
  const packed = npm('pack', home, '--silent', '--ignore-scripts').trim().split('\n').at(-1);
  npm('install', '--offline', '--no-audit', '--no-fund', `./${packed}`);
  for (const name of ['express', 'fastify', 'hono', '@hono']) {
    symlinkSync(join(home, 'node_modules', name), join(project, 'node_modules', name));
  }
  for (const [, name, code] of readme.matchAll(/```js\n\/\/ (\S+)\n([^]*?)```/g)) {
    writeFileSync(join(project, name), code);
  }
  const { Kit } = await import(pathToFileURL(join(project, 'node_modules/@actionproof/verifier/dist/kit.js')));
  kit = await Kit.make({ name: 'my-api', subject: 'agent:worker-1', action: 'create_post' });
  mkdirSync(join(project, 'trust'));
  const { registry, auditor, manifest, bundle, secret } = kit.files;
  for (const [name, text] of Object.entries({ 'registry.jwk': registry, 'auditor.jwk': auditor,
    'manifest.json': manifest,
    'bundle.json': bundle, secret: `${secret}\n` })) writeFileSync(join(project, 'trust', name), text);
});
after(() => rmSync(project, { recursive: true, force: true }));

const freePort = () => new Promise((resolve) => {
  const s = createServer().listen(0, '127.0.0.1', () => {
    const { port } = s.address();
    s.close(() => resolve(port));
  });
});

/** Starts a program of the README, or a text, and calls f with its address once it listens. */
async function serving(t, name, code) {
  if (code) writeFileSync(join(project, name), code);
  const port = await freePort();
  return listening(t, port, process.execPath, [name], { PORT: port });
}

const said = new Map(); // on standard error, by port

/** Starts a program, and returns its port once it listens there. */
async function listening(t, port, command, args, env) {
  const child = spawn(command, args, { cwd: project, env: { ...process.env, ...env },
    stdio: ['ignore', 'inherit', 'pipe'] });
  said.set(port, '');
  child.stderr.on('data', (chunk) => { said.set(port, said.get(port) + chunk); });
  t.after(() => child.kill());
  for (;;) {
    if (child.exitCode !== null) assert.fail(said.get(port));
    try {
      await fetch(`http://127.0.0.1:${port}/`);
      return port;
    } catch {
      await new Promise((resolve) => { setTimeout(resolve, 50); });
    }
  }
}

const send = async (port, headers, { url = post.url, body = post.body } = {}) => {
  const answer = await fetch(`http://127.0.0.1:${port}${url}`, { method: 'POST', headers, body });
  const text = await answer.text();
  return { status: answer.status, body: text === '' ? undefined : JSON.parse(text),
    type: answer.headers.get('content-type') };
};

/** What every protected route does. */
async function protects(port, url = '/posts') {
  const of = { ...post, url };
  const good = await kit.headers(of);
  assert.deepEqual(await send(port, good, of).then(({ status, body }) => [status, body]), [201, { text: 'hello' }]);
  const replayed = await send(port, good, of);
  assert.deepEqual([replayed.status, replayed.body.code, replayed.type.replace('; ', ';')],
    [409, 'replayed', 'application/problem+json;charset=utf-8']);
  assert.equal(replayed.body.message, replayed.body.detail); // the member that many SDKs show
  assert.deepEqual(replayed.body.error, { code: 'replayed', message: replayed.body.detail });
  const bad = await kit.headers(of, { 'capability+jwt': (c) => { c.session.humanPromptPresent = true; } });
  for (const [headers, change, status, code] of [
    [{ 'content-type': 'application/json' }, {}, 401, 'proof_missing'], [bad, {}, 403, 'human_involved'],
    [await kit.headers(of), { body: '{"text":"other"}' }, 403, 'artifacts_mismatch'],
    [await kit.headers({ ...of, body: `"${'x'.repeat(2 << 20)}"` }), { body: `"${'x'.repeat(2 << 20)}"` }, 413,
      'content_too_large'],
  ]) {
    const got = await send(port, headers, { ...of, ...change });
    assert.deepEqual([got.status, got.body.code], [status, code]);
  }
}

/** A mediator's two calls, and the post. */
async function endpointsWork(port) {
  const call = async (which, body) => (await fetch(`http://127.0.0.1:${port}/.well-known/actionproof/${which}`,
    { method: 'POST', body, headers: { 'content-type': 'application/json' } }));
  const remote = { challenge: async (asked) => (await call('challenge', asked)).json() };
  const answer = await call('verify', await kit.chain(remote, post));
  const earned = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(earned));
  assert.ok(earned.capability);
  const refused = await call('verify', '{}');
  assert.deepEqual([refused.status, (await refused.json()).code], [403, 'artifact_missing']);
}

test('Express', async (t) => {
  const port = await serving(t, 'express.mjs');
  await protects(port);
  await endpointsWork(port);
  // trailers, which no hash covers
  const headers = await kit.headers(post);
  const code = await new Promise((resolve, reject) => {
    const r = httpRequest({ port, host: '127.0.0.1', path: '/posts', method: 'POST',
      headers: { ...headers, 'transfer-encoding': 'chunked' } }, async (answer) => {
      let text = '';
      for await (const chunk of answer) text += chunk;
      resolve(JSON.parse(text).code);
    }).on('error', reject);
    r.write(post.body);
    r.addTrailers({ 'x-late': '1' });
    r.end();
  });
  assert.equal(code, 'request_malformed');
});

test('Fastify', async (t) => protects(await serving(t, 'fastify.mjs')));

test('Hono, and any handler of web requests', async (t) => {
  const port = await serving(t, 'hono.mjs');
  await protects(port);
  await protects(port, '/plain');
  await endpointsWork(port);
});

test('a body parser before the middleware is refused with a sentence', async (t) => {
  for (const [name, code] of [
    ['parsed-express.mjs', readFileSync(join(project, 'express.mjs'), 'utf8').replace('const app = server();',
      '$& app.use(server.json());')],
    ['parsed-hono.mjs', readFileSync(join(project, 'hono.mjs'), 'utf8')
      .replace('const app = new Hono();',
        '$& app.use(async (c, next) => { await c.req.raw.json(); await next(); });')],
  ]) {
    const got = await send(await serving(t, name, code), await kit.headers(post));
    assert.equal(got.status, 500);
    assert.match(got.body.detail, /body parser ran before/);
  }
});

test('observe passes every request on, with its verdict', async (t) => {
  const observing = (name) => readFileSync(join(project, name), 'utf8').replace("{ gate, posts } from './gate.mjs';",
    "{ gate, posts as enforced } from './gate.mjs';\nconst posts = { ...enforced, mode: 'observe' };");
  const code = observing('express.mjs').replace('.json(req.body)',
    '.json({ code: req.actionproof.code, text: req.body.text })');
  const port = await serving(t, 'observe.mjs', code);
  const { status, body } = await send(port, { 'content-type': 'application/json' });
  assert.deepEqual([status, body], [201, { code: 'proof_missing', text: 'hello' }]);
});

/** Starts Debian's nginx before a server: it cuts /api off the path, and changes Host. */
async function behindNginx(t, upstream) {
  const port = await freePort();
  const file = join(project, `nginx-${port}.conf`);
  const temp = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((of) => `${of}_temp_path ${project}/${of};`);
  const user = userInfo().uid === 0 ? 'user root;' : '';
  writeFileSync(file, `daemon off; ${user} pid ${file}.pid; error_log stderr; events {}
    http { access_log off; client_max_body_size 4m; ${temp.join(' ')}
      server { listen 127.0.0.1:${port}; location /api/ {
        proxy_pass http://127.0.0.1:${upstream}/; proxy_set_header Host internal.example; } } }`);
  return listening(t, port, '/usr/sbin/nginx', ['-p', project, '-c', file, '-e', 'stderr']);
}

test('behind nginx, a path that it changed is named, and publicURL restores it', async (t) => {
  for (const name of ['express', 'fastify', 'hono']) {
    const without = await serving(t, `${name}.mjs`);
    const changed = { ...post, url: '/api/posts' };
    const got = await send(await behindNginx(t, without), await kit.headers(changed), changed);
    assert.deepEqual([got.status, got.body.code], [403, 'artifacts_mismatch']);
    assert.match(said.get(without), /is for POST \/api\/posts, not POST \/posts; if a proxy .*set publicURL/);
    const code = readFileSync(join(project, `${name}.mjs`), 'utf8').replace("{ gate, posts } from './gate.mjs';",
      "{ gate, posts as inner } from './gate.mjs';\nconst posts = { ...inner, publicURL: 'https://example.com/api' };");
    await protects(await behindNginx(t, await serving(t, `public-${name}.mjs`, code)), '/api/posts');
  }
});

test('the kit of the README', async () => {
  const { bad, good } = await import(pathToFileURL(join(project, 'kit.mjs')));
  assert.ok(good['actionproof-request-proof'] && bad['actionproof-capability']);
});

test("the README's command", { skip: !process.env.EXPORT && 'EXPORT names no folder' }, () => {
  for (const name of ['posts.jsonl.gz', 'registry.jwk', 'auditor.jwk']) {
    copyFileSync(join(process.env.EXPORT, name), join(project, name));
  }
  const [, command] = /^ {4}(npx .*)$/m.exec(readme);
  assert.match(execSync(command, { cwd: project, encoding: 'utf8' }),
    /^Authentic: +8 verified, 2 incomplete.*, 0 REFUSED$/m);
});

test('the types of the package, in a strict project', () => {
  const file = join(project, 'types.mts');
  writeFileSync(file, `import { Gate, express, memoryStore, protectFetch, type Protect } from '@actionproof/verifier';
    import { fastify } from '@actionproof/verifier/fastify';
    import { Kit } from '@actionproof/verifier/kit';
    import { verifyExport } from '@actionproof/verifier/record';
    import { verifyWebBotAuth } from '@actionproof/verifier/webbotauth';
    const posts: Protect = { subject: 'agent:worker-1', action: 'create_post', mode: 'enforce' };
    const { files } = await Kit.make({ name: 'api', ...posts });
    const gate = await Gate.open(files, { name: 'api', store: memoryStore() });
    export const all = [express(gate, posts), fastify(gate, posts), protectFetch(gate, posts, () => new Response()),
      verifyExport, verifyWebBotAuth];
    // @ts-expect-error there is no default mode
    express(gate, { subject: 'agent:worker-1', action: 'create_post' });\n`);
  const options = '--ignoreConfig --noEmit --strict --module nodenext --target es2023 --types node --typeRoots';
  execFileSync(join(home, 'node_modules/.bin/tsc'), [...options.split(' '), join(home, 'node_modules/@types'), file],
    { stdio: 'inherit' });
});

test('the README is short, and the package small and without dependencies', () => {
  assert.ok(readme.split(/\s+/).length <= 400, `${readme.split(/\s+/).length} words`);
  const { dependencies = {} } = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8'));
  assert.deepEqual(dependencies, {});
  const size = readFileSync(join(home, 'bundle/index.js')).length;
  assert.ok(size < 60 * 1024, `${size} bytes`);
  assert.ok(readdirSync(join(project, 'node_modules/@actionproof/verifier')).includes('README.md'));
});
