// The script that the program embeds is built from viewer/ and src/, and nothing else. npm run viewer writes it.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { build } from 'esbuild';
import pkg from '../package.json' with { type: 'json' };

test('the embedded script', async () => {
  assert.match(pkg.scripts.viewer, /esbuild viewer\/page\.ts --bundle --minify --format=iife --target=es2022 --outfile=/);
  const { outputFiles: [built] } = await build({ entryPoints: [new URL('../viewer/page.ts', import.meta.url).pathname],
    bundle: true, minify: true, format: 'iife', target: 'es2022', write: false,
    absWorkingDir: new URL('..', import.meta.url).pathname });
  const embedded = readFileSync(new URL('../../../internal/viewer/page.js', import.meta.url));
  assert.ok(Buffer.from(built.contents).equals(embedded), 'run npm run viewer in packages/typescript');
  assert.doesNotMatch(embedded.toString(), /<\/script|<!--|innerHTML|insertAdjacentHTML|\beval\(|new Function|fetch\(/i);
});
