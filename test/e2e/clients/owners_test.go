package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/internal/freeport"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/gatetest"
)

// goImports are what the page leaves out of its program in Go, and a handler.
const goImports = `package main

import (
	"context"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/ledger/sqlite"
)

func makePost(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusCreated)
	_, _ = io.Copy(w, r.Body)
}

`

// TestOwners runs the three programs with which docs/api-owners.md begins, and posts to each.
func TestOwners(t *testing.T) {
	t.Parallel()
	page := string(kit.Read(t, filepath.Join(kit.Top, "docs/api-owners.md")))
	blocks := regexp.MustCompile("(?s)```(go|js|python)\n(.*?)```").FindAllStringSubmatch(page, 3)
	want := []string{"go", "js", "python"}
	for i, block := range blocks {
		lines := 0
		for line := range strings.Lines(block[2]) {
			if strings.TrimSpace(line) != "" {
				lines++
			}
		}
		if block[1] != want[i] || lines >= 20 {
			t.Fatalf("program %d is in %s, of %d lines", i, block[1], lines)
		}
	}
	if len(blocks) != 3 || strings.Index(page, "\n## ") < strings.Index(page, "```python") {
		t.Fatal("the page does not begin with three programs")
	}
	for i, start := range []func(t *testing.T, dir, code, port string) *exec.Cmd{startGo, startNode, startFlask} {
		t.Run(want[i], func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			check.Must(t, os.Mkdir(filepath.Join(dir, "trust"), 0o700))
			k := gatetest.NewAt(t, time.Now())
			k.Files(t, filepath.Join(dir, "trust"))
			address, err := freeport.Address()
			check.Must(t, err)
			cmd := start(t, dir, blocks[i][2], address[strings.LastIndex(address, ":")+1:])
			cmd.Dir = dir
			var said bytes.Buffer
			cmd.Stdout, cmd.Stderr = &said, &said
			check.Must(t, cmd.Start())
			defer func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				if t.Failed() {
					t.Log(said.String())
				}
			}()
			postTo(t, k, "http://"+address)
		})
	}
}

func startGo(t *testing.T, dir, code, port string) *exec.Cmd {
	t.Helper()
	binary, source := filepath.Join(dir, "api"), filepath.Join(dir, "main.go")
	kit.Write(t, source, goImports+code)
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", binary, source)
	build.Dir = kit.Top
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = append(os.Environ(), "ADDR=127.0.0.1:"+port)
	return cmd
}

func startNode(t *testing.T, dir, code, port string) *exec.Cmd {
	t.Helper()
	top, err := filepath.Abs(filepath.Join(kit.Top, "packages/typescript"))
	check.Must(t, err)
	modules := filepath.Join(top, "node_modules")
	own := filepath.Join(dir, "node_modules/@actionproof/verifier")
	check.Must(t, os.MkdirAll(own, 0o700))
	check.Must(t, os.Symlink(filepath.Join(modules, "express"), filepath.Join(dir, "node_modules/express")))
	build := exec.CommandContext(t.Context(), filepath.Join(modules, ".bin/tsc"), "-p", top, "--outDir",
		filepath.Join(own, "dist"))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	kit.Write(t, filepath.Join(own, "package.json"), kit.Read(t, filepath.Join(top, "package.json")))
	kit.Write(t, filepath.Join(dir, "api.mjs"), code)
	cmd := exec.CommandContext(t.Context(), kit.Need(t, "node"), "api.mjs")
	cmd.Env = append(os.Environ(), "PORT="+port)
	return cmd
}

func startFlask(t *testing.T, dir, code, port string) *exec.Cmd {
	t.Helper()
	kit.Write(t, filepath.Join(dir, "api.py"), code)
	source, err := filepath.Abs(filepath.Join(kit.Top, "packages/python/src"))
	check.Must(t, err)
	cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", "-m", "flask", "--app", "api", "run", "--port", port)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+source+":.", "PYTHONDONTWRITEBYTECODE=1")
	return cmd
}

// postTo earns a capability, and uses it twice.
func postTo(t *testing.T, k *gatetest.Kit, api string) {
	t.Helper()
	call := func(path string, body any, headers http.Header) (status int, answer []byte, err error) {
		raw, ok := body.([]byte)
		if !ok {
			raw, err = json.Marshal(body)
			check.Must(t, err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, api+path, bytes.NewReader(raw))
		check.Must(t, err)
		if r.Header = headers; headers == nil {
			r.Header = http.Header{}
		}
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, nil, err
		}
		defer resp.Body.Close()
		answer, err = io.ReadAll(resp.Body)
		return resp.StatusCode, answer, err
	}
	b, content := gatetest.Binding(), []byte(gatetest.Content)
	var ch challenge.Challenge
	asked := struct {
		Action      string `json:"action"`
		ContentHash string `json:"contentHash"`
		Resource    string `json:"resource"`
		Subject     string `json:"subject"`
	}{b.Action, b.ContentHash, b.Resource, b.Subject}
	kit.Until(t, api+" answers", func() bool {
		status, answer, err := call("/.well-known/actionproof/challenge", asked, nil)
		return err == nil && status == http.StatusOK && json.Unmarshal(answer, &ch) == nil
	})
	k.Clock.Set(time.Now())
	chain := k.Over(t, gatetest.Plan{Binding: b}, ch)
	status, answer, err := call("/.well-known/actionproof/verify",
		map[string]any{"envelope": chain.Envelope, "binding": chain.Binding}, nil)
	var earned struct{ Capability string }
	if check.Must(t, err); status != http.StatusOK || json.Unmarshal(answer, &earned) != nil {
		t.Fatalf("%d %s", status, answer)
	}
	headers := http.Header{"Authorization": {gatetest.Token}, gate.CapabilityHeader: {earned.Capability},
		gate.RequestProofHeader: {k.Proof(t, earned.Capability, gatetest.Token)}}
	var got []string
	for _, h := range []http.Header{headers, headers, nil} {
		status, _, err := call("/posts", content, h)
		check.Must(t, err)
		got = append(got, fmt.Sprint(status))
	}
	if said := strings.Join(got, " "); said != "201 409 401" {
		t.Errorf("posts were answered %s", said)
	}
}
