// What an export cannot say.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { utf8 } from '../dist/bytes.js';
import { readExport } from '../dist/export.js';
import { parsePolicy } from '../dist/logpolicy.js';
import { Sessions } from '../dist/sessions.js';

const root = async (kid) => {
  const { publicKey } = await crypto.subtle.generateKey('Ed25519', true, ['sign', 'verify']);
  const { x } = await crypto.subtle.exportKey('jwk', publicKey);
  return { kty: 'OKP', crv: 'Ed25519', kid, x };
};

test('a record has known members, and times of days that exist', async () => {
  const roots = { registry: await root('registry'), auditor: await root('auditor') };
  const read = (started, more = {}) => readExport(utf8([{ 'actionproof-evidence': { version: 1 } }, { roots },
    { record: { id: 'p', flow: 'post', state: 'forwarded', started, artifacts: [{ name: 'grant', token: 'x' }],
      ...more } },
    { end: { records: 1 } }].map((line) => `${JSON.stringify(line)}\n`).join('')));
  assert.equal((await read('2028-02-29T01:02:03.50+02:00')).records[0].record.started, '2028-02-29T01:02:03.5+02:00');
  await assert.rejects(read('2026-02-30T00:00:00Z'), { code: 'evidence_malformed' });
  for (const name of ['constructor', '__proto__']) { // which every object has
    await assert.rejects(read('2028-02-29T01:02:03Z', { [name]: 1 }), { code: 'evidence_malformed' });
  }
});

test('no witness has the name of the quorum of no witnesses', async () => {
  const policy = readFileSync(new URL('../../../translog/testdata/policy', import.meta.url), 'utf8');
  assert.equal((await parsePolicy(policy)).quorum, 'other');
  await assert.rejects(parsePolicy(policy.replaceAll('other', 'none')), { code: 'config_malformed' });
});

test('many lines, records and receipts are refused or held, and end no process', async () => {
  const roots = { registry: await root('registry'), auditor: await root('auditor') };
  const record = { started: '2028-02-29T01:02:03Z', artifacts: [{ name: 'grant', token: '' }] };
  const lines = [{ 'actionproof-evidence': { version: 1 } }, { roots }].map((line) => `${JSON.stringify(line)}\n`);
  for (const [of, times] of [[record, 2 ** 17], [{ ...record, steps: Array(50_000).fill({}) }, 5]]) {
    const line = `${JSON.stringify({ record: of })}\n`;
    await assert.rejects(readExport(utf8(lines.join('') + line.repeat(times) + '{"end": {}}\n')), /too many values/);
  }
  // An agent chooses the fields, up to 32 in 8 operations, of posts that are refused with their first artifact.
  const fields = Array.from({ length: 32 }, (_, i) => String.fromCharCode(65 + i));
  const full = JSON.stringify({ record: { ...record, id: 'p'.repeat(26), message: 'mutation '.padEnd(800, 'a, '),
    queryNames: fields, graphql: Array(8).fill({ type: 'mutation', fields }),
    artifacts: [{ name: 'challenge', token: 'x'.repeat(600) }] } });
  await readExport(utf8(`${lines.join('')}${`${full}\n`.repeat(100)}{"end":{"records":100}}\n`));
  await assert.rejects(readExport(utf8('\n'.repeat(2 ** 27))), { code: 'evidence_malformed' });
  const sessions = new Sessions();
  sessions.deliver('ses_1', Array(2 ** 18).fill(''));
  assert.equal(sessions.unasked(), 2 ** 18);
});
