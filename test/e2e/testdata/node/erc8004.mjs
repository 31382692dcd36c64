// A simulated chain with the reference contracts of ERC-8004. It prints the address of the identity
// registry, reads a line of JSON with calls of the registries, and prints what a node of the chain knows afterwards.
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { createVM } from '@ethereumjs/vm';
import { createAddressFromString, bytesToHex, hexToBytes } from '@ethereumjs/util';

const contracts = JSON.parse(readFileSync(new URL('../erc8004.json', import.meta.url), 'utf8'));
const [identities, reputations] = ['IdentityRegistryUpgradeable', 'ReputationRegistryUpgradeable'];
const word = (value) => (typeof value === 'string' ? value.slice(2) : value.toString(16)).padStart(64, '0');
const selector = (name, signature) => contracts[name].selectors[signature];
const withBytes = (bytes) => word(64) + word(bytes.length / 2) + bytes.padEnd(Math.ceil(bytes.length / 64) * 64, '0');

const account = (digit) => createAddressFromString(`0x${digit.repeat(40)}`);
const accounts = { deployer: account('1'), owner: account('2'), client: account('3') };
const vm = await createVM();

async function call(from, to, data) {
  const { execResult, createdAddress } = await vm.evm.runCall({ caller: from, to, data: hexToBytes(data),
    gasLimit: 30_000_000n });
  const { exceptionError, returnValue, logs = [] } = execResult;
  const reverted = exceptionError && Buffer.from(returnValue).toString('latin1').replace(/[^ -~]/g, '');
  return { reverted, createdAddress, returned: bytesToHex(returnValue),
    logs: logs.map(([, topics, raw]) => ({ topics: topics.map(bytesToHex), data: bytesToHex(raw) })) };
}

async function sent(...of) {
  const done = await call(...of);
  if (done.reverted !== undefined) throw new Error(`reverted: ${done.reverted}`);
  return done;
}

const deployed = async (name, args = '') => (await sent(accounts.deployer, undefined,
  `0x${contracts[name].bytecode}${args}`)).createdAddress;

/** A registry behind a proxy, as the deployed ones are. */
async function registry(name, identity, initialize) {
  const first = selector('HardhatMinimalUUPS', 'initialize(address)') + word(identity);
  const proxy = await deployed('ERC1967Proxy',
    word(String(await deployed('HardhatMinimalUUPS'))) + withBytes(first));
  await sent(accounts.deployer, proxy, `0x${selector(name, 'upgradeToAndCall(address,bytes)')}${
    word(String(await deployed(name)))}${withBytes(initialize)}`);
  return proxy;
}

const identity = await registry(identities, '0x0', selector(identities, 'initialize()'));
const reputation = await registry(reputations, String(identity), selector(reputations, 'initialize(address)') +
  word(String(identity)));
console.log(String(identity));

const results = [];
for await (const line of createInterface({ input: process.stdin })) {
  for (const { from, registry: of, calldata } of JSON.parse(line)) {
    const done = await call(accounts[from], of === 'identity' ? identity : reputation, calldata);
    const read = `0x${selector(reputations, 'readFeedback(uint256,address,uint64)')}${word(0)}${
      word(String(accounts.client))}${word(1)}`;
    const uri = `0x${selector(identities, 'tokenURI(uint256)')}${word(0)}`;
    results.push({ ...done, createdAddress: undefined,
      feedback: (await call(accounts.client, reputation, read)).returned,
      uri: (await call(accounts.client, identity, uri)).returned });
  }
  break;
}
console.log(JSON.stringify(results));
process.exit(0);
