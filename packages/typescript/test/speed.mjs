// Verifies, in ten portions, the chains of a file that test/differential writes. Prints the CPU seconds that a chain of
// the fastest portion took: node speed.mjs FILE.
import { readFileSync } from 'node:fs';
import { Gate, memoryStore } from '../dist/index.js';

const [first, ...lines] = readFileSync(process.argv[2], 'utf8').trimEnd().split('\n').map((row) => JSON.parse(row));
const gate = await Gate.open(first.trust, { name: first.trust.name, store: memoryStore(), now: () => first.now * 1000,
  maxStale: Infinity });
const bodies = lines.map((line) => Buffer.from(line.request.body, 'base64'));
const size = Math.ceil(bodies.length / 10);
let least = Infinity;
for (let at = 0; at < bodies.length; at += size) {
  const portion = bodies.slice(at, at + size);
  const before = process.cpuUsage();
  for (const body of portion) {
    const { status, code } = await gate.admit(body);
    if (status !== 'verified') throw new Error(code);
  }
  const { user, system } = process.cpuUsage(before);
  least = Math.min(least, (user + system) / portion.length);
}
console.log(least / 1e6);
