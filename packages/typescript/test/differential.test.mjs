// The same status and code as the Go gate's for chains with faults: see test/differential. CORPUS names the file.
import assert from 'node:assert/strict';
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { Gate, Refusal } from '../dist/index.js';

const VERIFY_PATH = '/.well-known/actionproof/verify';
const store = { consume: async () => true };

test('judges as the Go gate does', { skip: !process.env.CORPUS && 'CORPUS names no file' }, async () => {
  let gate;
  let trust;
  let now;
  let judged = 0;
  const differences = [];
  for await (const text of createInterface({ input: createReadStream(process.env.CORPUS) })) {
    const line = JSON.parse(text);
    now = line.now * 1000;
    let got;
    if (line.trust) {
      const opened = await Gate.open(line.trust, { name: line.trust.name, store, now: () => now, maxStale: Infinity })
        .catch((error) => error);
      if (opened instanceof Gate) [gate, trust] = [opened, line.trust];
      got = opened instanceof Gate ? { status: 'verified', code: 'ok' } : { status: 'refused', code: opened.code };
      if (!(opened instanceof Gate) && !(opened instanceof Refusal)) throw opened;
    } else {
      judged++;
      const { method, url, headers, body } = line.request;
      const rawBody = Buffer.from(body ?? '', 'base64');
      got = url === VERIFY_PATH && method === 'POST' ? await gate.admit(rawBody)
        : await gate.verify({ method, url, headers, rawBody }, trust);
    }
    if (got.status !== line.status || got.code !== line.code) {
      differences.push(`${line.fault}: ${got.status} ${got.code} (${got.detail}), want ${line.status} ${line.code}: ${
        JSON.stringify(line.request ?? line.trust).slice(0, 3000)}`);
    }
  }
  assert.deepEqual(differences.slice(0, 20), [], `${differences.length} of ${judged}`);
  assert.ok(judged > 0);
});
