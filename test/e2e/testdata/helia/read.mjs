// Imports CARs into a node of IPFS that has no network, and prints the root of each and the SHA-256 of the file that it
// holds: read.mjs FILE...
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { car } from '@helia/car';
import { unixfs } from '@helia/unixfs';
import { CarReader } from '@ipld/car';
import { createHelia } from 'helia';

const helia = await createHelia({ start: false });
for (const file of process.argv.slice(2)) {
  const reader = await CarReader.fromBytes(readFileSync(file));
  await car(helia).import(reader);
  const [root] = await reader.getRoots();
  const hash = createHash('sha256');
  for await (const chunk of unixfs(helia).cat(root, { offline: true })) hash.update(chunk);
  console.log(String(root), hash.digest('hex'));
}
