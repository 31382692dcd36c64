#!/usr/bin/env node
// npx @actionproof/verifier verify FILE: what mediator verify prints of an export, with public keys alone.
import { realpathSync } from 'node:fs';
import { open, readFile } from 'node:fs/promises';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { type ExportOptions, Refusal, verifyExport } from './record.js';

const MAX_FILE = 256 << 20;
const HELP = `Usage: actionproof-verifier verify FILE --registry FILE --auditor FILE [flags]

Verifies an export (mediator posts export), also from standard input (-), and prints four results of which none speaks
for another. It ends with 0 if nothing is refused, 1 if something is or cannot be judged, and 2 if called otherwise.

  --registry FILE         the key registry's public key, which you pin
  --auditor FILE          the deployment auditor's public key
  --bundle FILE           your trust bundle, of which the current revocation list counts, and not the history
  --api-keys [HOST=]FILE  public keys in PEM with which the API at HOST signs its answers; repeat for more
  --log-policy FILE       the key of the transparency log, its witnesses and their quorum (c2sp.org/tlog-policy)
  --json                  print the report as JSON

Whether the log has posts that are missing here, only mediator verify --log tells.
`;

class UsageError extends Error {}

/** Reads at most as many bytes as are judged. */
async function read(path: string): Promise<Uint8Array> {
  if (path === '-') {
    const chunks: Uint8Array[] = [];
    let size = 0;
    for await (const chunk of process.stdin) {
      if ((size += chunk.length) > MAX_FILE) throw new Error(`standard input has more than ${MAX_FILE} bytes`);
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  }
  const file = await open(path);
  try {
    if ((await file.stat()).size > MAX_FILE) throw new Error(`${path} has more than ${MAX_FILE} bytes`);
    return await file.readFile();
  } finally {
    await file.close();
  }
}

type Print = (text: string) => unknown;

async function run(args: string[], print: Print): Promise<number> {
  const text = { type: 'string' } as const;
  let given;
  try {
    given = parseArgs({ args, allowPositionals: true, options: {
      registry: text, auditor: text, bundle: text, 'api-keys': { ...text, multiple: true }, 'log-policy': text,
      json: { type: 'boolean' }, help: { type: 'boolean', short: 'h' },
    } });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
  const { values: v, positionals: [command, file, ...more] } = given;
  if (v.help) {
    print(HELP);
    return 0;
  }
  if (command !== 'verify' || file === undefined || more.length > 0 || !v.registry || !v.auditor) {
    throw new UsageError('verify takes one file, --registry and --auditor');
  }
  const [registry, auditor] = [await readFile(v.registry, 'utf8'), await readFile(v.auditor, 'utf8')];
  const options: ExportOptions = {};
  if (v['log-policy']) options.logPolicy = await readFile(v['log-policy'], 'utf8');
  for (const named of v['api-keys'] ?? []) {
    const [, host = '', path = named] = /^([^=/]*)=(.*)$/s.exec(named) ?? [];
    ((options.answerKeys ??= {})[host] ??= []).push(await readFile(path, 'utf8'));
  }
  const trust = { registry, auditor, ...(v.bundle && { bundle: await readFile(v.bundle, 'utf8') }) };
  const report = await verifyExport(await read(file), trust, options);
  print(v.json ? `${JSON.stringify(report)}\n` : report.text);
  if (report.text === '') {
    throw report.status === 'refused' ? new Refusal(report.code, report.detail) : new Error(report.detail);
  }
  return report.status === 'verified' ? 0 : 1;
}

/** Runs the command, and returns its exit status. */
export async function main(args: string[], print: Print, say: Print): Promise<number> {
  try {
    return await run(args, print);
  } catch (error) {
    const code = error instanceof Refusal ? ` (${error.code})` : '';
    const said = `actionproof-verifier: ${(error as Error).message}${code}`;
    say(`${said.replace(/[\p{Cc}\p{Bidi_Control}]/gu, '?')}\n`);
    if (!(error instanceof UsageError)) return 1;
    say('Run "actionproof-verifier --help" for its flags.\n');
    return 2;
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(realpathSync(process.argv[1])).href) {
  process.exitCode = await main(process.argv.slice(2), (text) => process.stdout.write(text),
    (text) => process.stderr.write(text));
}
