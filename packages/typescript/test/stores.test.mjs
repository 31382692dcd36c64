// Races of 64 clients with the same capability: one wins. DATABASE names a PostgreSQL database.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import pg from 'pg';
import { createClient } from 'redis';
import { Gate, POSTGRES_TABLE, memoryStore, postgresStore, redisStore } from '../dist/index.js';
import { Kit } from '../dist/kit.js';

const of = { name: 'api', subject: 'agent:worker-1', action: 'create_post' };
const post = { method: 'POST', url: '/posts', body: '{"text":"hello"}' };
const kit = await Kit.make(of);

const verified = async (store) => {
  const gate = await Gate.open(kit.files, { name: of.name, store });
  const request = { method: post.method, url: post.url, headers: await kit.headers(post),
    rawBody: Buffer.from(post.body) };
  return Promise.all(Array.from({ length: 64 }, () => gate.verify(request, of)));
};

/** Uses all verdicts up at once, and returns how many stay verified. */
async function winners(verdicts, consume) {
  const codes = await Promise.all(verdicts.map(async (v) => (await consume(v)).code));
  assert.deepEqual([...new Set(codes)].sort(), ['ok', 'replayed']);
  return codes.filter((code) => code === 'ok').length;
}

test('in memory', async () => {
  assert.equal(await winners(await verified(memoryStore()), (v) => v.consume()), 1);
});

test('in Redis', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'redis-'));
  const path = join(dir, 'socket');
  const server = spawn('redis-server', ['--port', '0', '--unixsocket', path, '--dir', dir, '--appendonly', 'yes',
    '--appendfsync', 'always', '--save', ''], { stdio: 'ignore' });
  server.on('error', (error) => { throw error; });
  const client = createClient({ socket: { path, reconnectStrategy: () => 50 } }).on('error', () => {});
  await client.connect();
  t.after(async () => {
    client.destroy();
    server.kill();
    await new Promise((resolve) => { server.once('exit', resolve); });
    rmSync(dir, { recursive: true, force: true });
  });
  const store = redisStore((args) => client.sendCommand(args));
  assert.equal(await winners(await verified(store), (v) => v.consume()), 1);
  const [key] = await client.keys('*capability*');
  assert.ok(await client.pTTL(key) > 0);
});

test('in PostgreSQL, in the transaction of the post', { skip: !process.env.DATABASE && 'DATABASE names none' },
  async (t) => {
  const pool = new pg.Pool({ connectionString: process.env.DATABASE, max: 16 });
  t.after(() => pool.end());
  await pool.query(POSTGRES_TABLE);
  await pool.query('CREATE TABLE posts (content text)');
  const made = async (v, works = true) => {
    const client = await pool.connect();
    try {
      await client.query('BEGIN');
      const used = await v.consume(postgresStore(client));
      const commits = used.status === 'verified' && works;
      if (used.status === 'verified') await client.query('INSERT INTO posts VALUES ($1)', [post.body]);
      await client.query(commits ? 'COMMIT' : 'ROLLBACK');
      return used;
    } finally {
      client.release();
    }
  };
  const verdicts = await verified(memoryStore());
  assert.equal((await made(verdicts[0], false)).code, 'ok'); // rolled back: the evidence is not used up
  assert.equal(await winners(verdicts, made), 1);
  assert.deepEqual((await pool.query('SELECT count(*)::int AS n FROM posts')).rows, [{ n: 1 }]);
  const forgetful = new pg.Pool({ connectionString: process.env.DATABASE, options: '-c synchronous_commit=off' });
  t.after(() => forgetful.end());
  const key = { kind: 'challenge', id: 'forgotten', expires: Date.now() / 1000 + 60 };
  await assert.rejects(postgresStore(forgetful).consume([key]), /synchronous_commit/);
});
