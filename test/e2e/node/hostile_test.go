package node

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actionproof/mediator/reputation/api"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// costly are requests that cost as much as their makers could think of.
func costly() (all []request) {
	many := func(one string, most int) string { return strings.Repeat(one+",", most/(len(one)+1)) + one }
	const mcp = 2<<20 - 1000
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	turns := `{"pubkey":"x","payload":"x","signature":"x","challengeNonce":"x","challengeTrace":{"turns":[` +
		many("{}", mcp) + `]}}`
	all = []request{
		{"POST", "/mcp", "[" + many(list, mcp) + "]"},
		{"POST", "/mcp", callOf("register_plugin", turns)},
		{"POST", "/mcp", callOf("register_plugin", `{"challengeTrace":"`+strings.Repeat(`\n`, mcp/2)+`"}`)},
		{"POST", "/mcp", callOf("search_plugins", `{"query":"`+strings.Repeat("x", mcp)+`"}`)},
		{"POST", "/mcp", strings.Repeat("[", mcp)},
		{"POST", "/mcp", callOf("list_mcp_servers", "{}")},
		{"POST", "/v1/receipts", `{"receipts":[` + many(`""`, api.MaxReceipts-100) + `]}`},
		{"POST", "/v1/receipts", `{"receipts":["` + strings.Repeat("x", api.MaxReceipts-100) + `"]}`},
		{"POST", "/v1/receipts", strings.Repeat(`{"receipts":`, api.MaxReceipts/12)},
	}
	for _, path := range []string{"/v1/signals", "/v1/dispute", "/v1/challenge/issue", "/v1/challenge/commit",
		"/v1/disputes/1/resolution"} {
		all = append(all, request{"POST", path, `{"signal_id":"` + strings.Repeat("x", 60<<10) + `"}`},
			request{"POST", path, `{"target_receipts":[` + many(`""`, 60<<10) + `]}`})
	}
	for _, path := range []string{"/v1/score/x", "/v1/reputation/x", "/v1/signals?agent=x", "/v1/disputes?after=1",
		"/v1/disputes/log", "/v1/disputes/log/checkpoint", "/v1/disputes/log/tile/0/000", "/v1/schemas/signal",
		"/v1/baselines/x", "/v1/sessions/x/score", "/openapi.json", api.PinsPath, "/" + strings.Repeat("x", 8000)} {
		all = append(all, request{"GET", path, ""})
	}
	return all
}

type request struct{ method, path, body string }

// TestNodeAmongHostileClients lets ten clients send the node the costliest requests at once, to every endpoint. It needs
// little memory, and serves another client.
func TestNodeAmongHostileClients(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t, verificationConfig)
	kit.Edit(t, n.At("one.yaml"), "    receipts:",
		"    statements: {issuers: [s], audiences: [posting-api], keys: [s]}\n    receipts:")
	kit.Write(t, n.At("one.yaml"), string(kit.Read(t, n.At("one.yaml")))+"disputes: {}\n")
	n.Binary = kit.Program(t) // the test's own may be instrumented
	n.Start(t)
	from := func(address string) *http.Client {
		transport := n.HTTPS.Transport.(*http.Transport).Clone()
		transport.DialContext = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}).DialContext
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Timeout: kit.Patience, Transport: transport}
	}
	send := func(c *http.Client, r request) int {
		req, err := http.NewRequestWithContext(t.Context(), r.method, "https://"+n.Public+r.path,
			strings.NewReader(r.body))
		check.Must(t, err)
		req.Header.Set("Content-Type", "application/json")
		resp, err := c.Do(req)
		if err != nil {
			return 0 // the node may close a connection whose body it does not read
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	var hostile sync.WaitGroup
	all := costly()
	attacked := make(map[int]int)
	var mu sync.Mutex
	for i := range 10 {
		client := from(fmt.Sprint("127.0.1.", i+1))
		for lane := range 2 {
			hostile.Go(func() {
				for j := range all {
					status := send(client, all[(j+7*lane+i)%len(all)])
					mu.Lock()
					attacked[status]++
					mu.Unlock()
				}
			})
		}
	}
	over := make(chan struct{})
	go func() { hostile.Wait(); close(over) }()
	honest, served := from("127.0.0.1"), 0
	for end := false; !end; {
		kit.Until(t, "an answer to an honest client", func() bool {
			return send(honest, request{"POST", "/mcp", callOf("list_mcp_servers", "{}")}) == http.StatusOK
		})
		served++
		select {
		case <-over:
			end = true
		case <-time.After(2 * time.Second): // as often as the tools allow it
		}
	}
	peak := peakMemory(t, n.Cmd.Process.Pid)
	t.Logf("the hostile clients got %v, the honest one %d answers; at most %d MB were used", attacked, served, peak>>20)
	if peak >= 256<<20 {
		t.Errorf("the node used %d MB", peak>>20)
	}
}

func peakMemory(t *testing.T, pid int) int64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	check.Must(t, err)
	_, rest, _ := bytes.Cut(raw, []byte("VmHWM:"))
	kilobytes, err := strconv.ParseInt(strings.Fields(string(rest))[0], 10, 64)
	check.Must(t, err)
	return kilobytes << 10
}
