// How many whole chains a second of one core's user time verifies: npm run bench.
import { Gate } from '../dist/index.js';
import { Kit } from '../dist/kit.js';

const COUNT = Number(process.argv[2] ?? 1000);
const at = Date.now();
const now = () => at;
const of = { name: 'api', subject: 'agent:worker-1', action: 'create_post' };
const kit = await Kit.make({ ...of, now });
const gate = await Gate.open(kit.files, { name: of.name, now, store: { consume: async () => true } });
const chains = [];
while (chains.length < COUNT) {
  chains.push(await kit.chain(gate, { method: 'POST', url: '/posts', body: `{"text":"${chains.length}"}` }));
}
for (const chain of chains.slice(0, COUNT / 10)) await gate.admit(chain); // warm up
const before = process.cpuUsage();
for (const chain of chains) {
  const { code } = await gate.admit(chain);
  if (code !== 'ok') throw new Error(code);
}
const { user, system } = process.cpuUsage(before);

// One signature alone, to tell a busy machine from a slow verifier.
const { privateKey, publicKey } = await crypto.subtle.generateKey('Ed25519', true, ['sign', 'verify']);
const message = new Uint8Array(1000);
const signature = await crypto.subtle.sign('Ed25519', privateKey, message);
const alone = process.cpuUsage();
for (let i = 0; i < COUNT; i++) await crypto.subtle.verify('Ed25519', publicKey, signature, message);
const one = process.cpuUsage(alone).user / COUNT;
console.log(`${Math.round(COUNT / (user / 1e6))} chains/s of user time (${Math.round(user / COUNT)} µs user, ` +
  `${Math.round(system / COUNT)} µs system each; one signature alone ${Math.round(one)} µs; node ${process.version})`);
