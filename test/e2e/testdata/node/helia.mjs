// Imports a CAR into a store in memory, and prints its root and the SHA-256 of the file that it holds: helia.mjs FILE.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { car } from '@helia/car';
import { unixfs } from '@helia/unixfs';
import { CarReader } from '@ipld/car';
import { defaultLogger } from '@libp2p/logger';
import { MemoryBlockstore } from 'blockstore-core';

const helia = { blockstore: new MemoryBlockstore(), logger: defaultLogger() }; // of a Helia node, what has no network
const reader = await CarReader.fromBytes(readFileSync(process.argv[2]));
await car(helia).import(reader);
const [root] = await reader.getRoots();
const hash = createHash('sha256');
for await (const chunk of unixfs(helia).cat(root, { offline: true })) hash.update(chunk);
console.log(String(root), hash.digest('hex'));
