package agents

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

const clientRules = `
egress:
  - name: reads
    match: {url: "https://api.test/**", methods: [GET, HEAD]}
  - name: registry
    match: {url: "https://registry.npmjs.org/**", methods: [GET, HEAD]}
upstreams:
  - {host: "api.test:443", address: "UPSTREAM", networks: [127.0.0.0/8], ca: api-ca.pem}
  - {host: "registry.npmjs.org:443", address: "UPSTREAM", networks: [127.0.0.0/8], ca: api-ca.pem}
`

// registry is a stand-in for npm's, with one package.
func registry(t *testing.T) http.Handler {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	files := tar.NewWriter(z)
	for name, content := range map[string]string{"package/package.json": `{"name":"pack","version":"1.0.0"}`,
		"package/index.js": `console.log("the answer")`} {
		check.Must(t, files.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}))
		_, err := io.WriteString(files, content)
		check.Must(t, err)
	}
	check.Must(t, files.Close())
	check.Must(t, z.Close())
	sum := sha512.Sum512(packed.Bytes())
	document := fmt.Sprintf(`{"name":"pack","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"pack",`+
		`"version":"1.0.0","dist":{"tarball":"https://registry.npmjs.org/pack/-/pack-1.0.0.tgz","integrity":"sha512-%s"}}}}`,
		base64.StdEncoding.EncodeToString(sum[:]))
	mux := http.NewServeMux()
	mux.HandleFunc("/pack", func(w http.ResponseWriter, _ *http.Request) { kit.AnswerJSON(w, document) })
	mux.HandleFunc("/pack/-/pack-1.0.0.tgz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(packed.Bytes())
	})
	return mux
}

// goClient reads a URL with Go's client.
func goClient(args []string) int {
	resp, err := http.Get(args[0]) //nolint:gosec // the test's
	if err == nil {
		_, err = io.Copy(os.Stdout, resp.Body)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// TestClients reads with clients that nothing configures, in isolated runs.
func TestClients(t *testing.T) {
	if *play == "" {
		t.Skip("make test-agents plays published clients")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("api.test/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "the answer") })
	mux.Handle("registry.npmjs.org/", registry(t))
	r := kit.NewRig(t, []string{"api.test", "registry.npmjs.org"}, kit.Serve(mux, clientRules))
	const url = "https://api.test/x"
	rows := map[string]string{
		"curl": "curl -sS " + url, "wget": "wget -qO- " + url,
		"Java": "java $0/Client.java " + url,
		"npm":  "cd; npm install --no-audit --no-fund pack >&2 && node -e 'require(\"pack\")'",
		"curl after HTTP/3 is refused": `python3 -c 'import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("api.test", 443)); s.send(b"x")
try: s.recv(1)
except ConnectionRefusedError: pass' && curl -sS ` + url,
	}
	for _, client := range []string{"urllib", "requests", "httpx", "aiohttp"} {
		rows["Python's "+client] = "/usr/bin/python3 $0/client.py " + client + " " + url
	}
	for _, version := range []string{"20", "22", "24"} {
		for _, client := range []string{"fetch", "undici", "axios", "got"} {
			rows["Node "+version+"'s "+client] = "$0/node_modules/node" + version + "/bin/node $0/client.mjs " + client + " " +
				url
		}
	}
	files, err := filepath.Abs("testdata")
	check.Must(t, err)
	for name, script := range rows {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, err := r.StartRun(t, nil, nil, script, files)
			if err != nil || strings.TrimSpace(stdout) != "the answer" {
				t.Errorf("%v\n%s%s", err, stdout, stderr)
			}
		})
	}
	t.Run("Go", func(t *testing.T) {
		kit.OpenTo(t, filepath.Dir(kit.Self(t)))
		if out, err := r.AsAgent(t, kit.Self(t), "go-client", url); err != nil || out != "the answer" {
			t.Errorf("%q, %v", out, err)
		}
	})
	t.Run("a client with a CA of its own", func(t *testing.T) {
		before := len(r.RecordsOf(t, "", "tls_handshake_failed"))
		if _, stderr, err := r.StartRun(t, nil, nil, "curl -sS --cacert $0/node_modules/none.pem "+url+
			" || curl -sS --pinnedpubkey sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= "+url, files); err == nil {
			t.Errorf("it got through: %s", stderr)
		}
		if len(r.RecordsOf(t, "", "tls_handshake_failed")) == before {
			t.Error("there is no record")
		}
	})
}
