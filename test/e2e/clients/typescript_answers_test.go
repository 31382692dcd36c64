package clients

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestTypeScriptAnswers: the sidecar accepts the answers that each adapter of the package signs, and no altered one.
func TestTypeScriptAnswers(t *testing.T) {
	t.Parallel()
	modules, dir := kit.TypeScript(t), t.TempDir()
	key, public := filepath.Join(dir, "answer.key"), filepath.Join(dir, "answer.pem")
	for _, args := range [][]string{{"genpkey", "-algorithm", "ed25519", "-out", key},
		{"pkey", "-in", key, "-pubout", "-out", public}} {
		check.Must(t, exec.CommandContext(t.Context(), "openssl", args...).Run())
	}
	keys, err := gate.ReadAnswerKeys(public)
	check.Must(t, err)
	node := exec.CommandContext(t.Context(), "node", "--input-type=module", "-e", signingServers, modules, key)
	node.Dir, node.Stderr = filepath.Join(kit.Top, "packages/typescript"), os.Stderr
	stdout, err := node.StdoutPipe()
	check.Must(t, err)
	check.Must(t, node.Start())
	t.Cleanup(func() { _ = node.Process.Kill(); _ = node.Wait() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	check.Must(t, err)
	var servers map[string]struct {
		URL     string
		Headers map[string]string
	}
	check.Must(t, json.Unmarshal([]byte(line), &servers))
	if len(servers) != 5 {
		t.Fatal(line)
	}
	for name, s := range servers {
		out, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader(`{"text":"hello"}`))
		check.Must(t, err)
		for name, value := range s.Headers {
			out.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(out)
		check.Must(t, err)
		body, err := io.ReadAll(resp.Body)
		check.Must(t, err, resp.Body.Close())
		_, _, err = gate.VerifyAnswer(out, resp, keys, time.Now())
		if name == "unsigned" {
			check.WantCode(t, err, "answer_unsigned")
			continue
		}
		if err != nil || resp.StatusCode != http.StatusCreated || string(body) != `{"text":"hello"}` {
			t.Errorf("%s: %v, %d %s %v", name, err, resp.StatusCode, body, resp.Header)
		}
		resp.StatusCode = http.StatusOK
		if _, _, err := gate.VerifyAnswer(out, resp, keys, time.Now()); err == nil {
			t.Errorf("%s: another status is accepted", name)
		}
	}
}

const signingServers = `
import { readFileSync } from 'node:fs';
import { serve } from '@hono/node-server';
import server from 'express';
import Fastify from 'fastify';
import { Hono } from 'hono';
const [modules, key] = process.argv.slice(1);
const { Gate, express, hono, memoryStore, protectFetch, signingKey } = await import(modules + '/index.js');
const { fastify } = await import(modules + '/fastify.js');
const { Kit } = await import(modules + '/kit.js');
const of = { name: 'api', subject: 'agent:worker-1', action: 'create_post' };
const kit = await Kit.make(of);
const gate = await Gate.open(kit.files, { name: of.name, store: memoryStore() });
const p = { ...of, mode: 'enforce', sign: await signingKey(readFileSync(key, 'utf8')) };
const all = {};
const started = async (name, listening) => {
  const port = await listening;
  const headers = await kit.headers({ method: 'POST', url: '/posts', body: '{"text":"hello"}' });
  if (name === 'unsigned') headers['idempotency-key'] = 'another';
  all[name] = { URL: 'http://127.0.0.1:' + port + '/posts', Headers: headers };
};
const at = (name) => new Proxy({ ...p }, {
  get: (o, k) => k === 'publicURL' ? all[name]?.URL.replace('/posts', '') : o[k],
});
const node = (name) => new Promise((resolve) => {
  const app = server();
  app.post('/posts', express(gate, at(name)), (req, res) => {
    if (name !== 'streamed') return res.status(201).json(req.body);
    res.writeHead(201, { 'Content-Type': 'application/json' });
    res.write('{"text":');
    setTimeout(() => res.end('"hello"}'), 5);
  });
  const s = app.listen(0, '127.0.0.1', () => resolve(s.address().port));
});
for (const name of ['express', 'streamed', 'unsigned']) await started(name, node(name));
const f = Fastify();
f.post('/posts', { preParsing: fastify(gate, at('fastify')) }, (req, reply) => reply.code(201).send(req.body));
await started('fastify', f.listen({ port: 0, host: '127.0.0.1' }).then((url) => new URL(url).port));
const app = new Hono();
app.post('/posts', hono(gate, at('hono')), async (c) => c.json(await c.req.json(), 201));
await started('hono', new Promise((resolve) => serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' },
  ({ port }) => resolve(port))));
console.log(JSON.stringify(all));
`
