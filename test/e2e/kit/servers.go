package kit

import (
	"bufio"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/actionproof/mediator/internal/freeport"
	"github.com/actionproof/mediator/test/check"
)

// NodeServer is a server on Node that runs until the test ends.
type NodeServer struct {
	Address string

	mu    sync.Mutex // guards lines
	lines []string   // that it has printed
}

// StartNode starts a server of testdata/node that takes a certificate, a key and more, and prints its port.
func StartNode(t *testing.T, r *Rig, script string, more ...string) *NodeServer {
	t.Helper()
	cmd := exec.Command(Need(t, "node"), append([]string{"--no-warnings", Scripts + "node/" + script, r.In("api.pem"),
		r.In("api.key")}, more...)...)
	cmd.Dir, cmd.Stderr = Top, os.Stderr
	out, err := cmd.StdoutPipe()
	check.Must(t, errors.Join(err, cmd.Start()))
	m, lines := &NodeServer{}, bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatalf("%s does not start", script)
	}
	m.Address = "127.0.0.1:" + strings.TrimPrefix(lines.Text(), "listening ")
	readUntilEnd(t, cmd, lines, func(line string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.lines = append(m.lines, line)
	})
	return m
}

func readUntilEnd(t *testing.T, cmd *exec.Cmd, lines *bufio.Scanner, each func(line string)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for lines.Scan() {
			each(lines.Text())
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
		_ = cmd.Wait()
	})
}

// Seen returns how often it has printed a line.
func (m *NodeServer) Seen(line string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, l := range m.lines {
		if l == line {
			n++
		}
	}
	return n
}

// StartEverything starts the published MCP server with everything, over plain HTTP.
func StartEverything(t *testing.T) *url.URL {
	t.Helper()
	address, err := freeport.Address()
	check.Must(t, err)
	_, port, _ := strings.Cut(address, ":")
	cmd := exec.Command(Need(t, "node"), "--no-warnings", "--require", "./"+Scripts+"node/webcrypto.cjs",
		Scripts+"node/node_modules/@modelcontextprotocol/server-everything/dist/index.js", "streamableHttp")
	cmd.Dir = Top
	cmd.Env = append(os.Environ(), "PORT="+port)
	said, err := cmd.StderrPipe()
	check.Must(t, err)
	check.Must(t, cmd.Start())
	lines := bufio.NewScanner(said)
	for lines.Scan() && !strings.Contains(lines.Text(), "listening on port") {
	}
	readUntilEnd(t, cmd, lines, func(string) {})
	return &url.URL{Scheme: "http", Host: "127.0.0.1:" + port}
}
