// Verifies the chains of a file that test/differential writes, and prints the user CPU time: node speed.mjs FILE.
import { readFileSync } from 'node:fs';
import { Gate, memoryStore } from '../dist/index.js';

const [first, ...lines] = readFileSync(process.argv[2], 'utf8').trimEnd().split('\n').map((row) => JSON.parse(row));
const gate = await Gate.open(first.trust, { name: first.trust.name, store: memoryStore(), now: () => first.now * 1000,
  maxStale: Infinity });
const bodies = lines.map((line) => Buffer.from(line.request.body, 'base64'));
const before = process.cpuUsage();
for (const body of bodies) {
  const { status, code } = await gate.admit(body);
  if (status !== 'verified') throw new Error(code);
}
console.log(process.cpuUsage(before).user / 1e6);
