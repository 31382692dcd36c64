package proxy

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/mcp"
)

// BenchmarkMCPRead compares a read by a rule about messages with the same bytes by a plain rule, in turns: the median
// CPU of client, mediator and upstream together, which share the process.
func BenchmarkMCPRead(b *testing.B) {
	answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":%q}],"isError":false}}`,
		strings.Repeat("an issue ", 100))
	body := fmt.Sprintf(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_issue","arguments":{"owner":"a",`+
			`"repo":"b","number":7,"note":%q},"_meta":{"progressToken":1}}}`, strings.Repeat("a note ", 100))
	p := newPostRig(b, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}, func(o *PipelineOptions, actions []Action) {
		at := func(path string) match.Match {
			m := actions[0].Match
			m.Path, m.Methods = path, []string{"POST"}
			return m
		}
		o.Rules = rulesFor(b, nil,
			[]Egress{{Name: "plain", Match: at("/plain")},
				{Name: "mcp", Match: at("/mcp"), MCP: &mcp.Rule{Tools: []string{"get_issue"}}}})
		o.Load = Load{Session: Rate{PerSecond: maxRate}, Host: Rate{PerSecond: maxRate}}
		o.Record = forgetful{}
	})
	var cpu [2][]time.Duration // of each turn
	const turn = 50
	for n := 0; n < b.N; n += turn {
		for i, path := range []string{"/plain", "/mcp"} {
			began := cpuTime(b)
			for range turn {
				resp, err := p.client.Post(p.base+path, "application/json", strings.NewReader(body))
				must(b, err)
				if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
					b.Fatal(resp.Status, err)
				}
				must(b, resp.Body.Close())
			}
			cpu[i] = append(cpu[i], (cpuTime(b)-began)/turn)
			p.mu.Lock()
			p.sent, p.body = nil, nil
			p.mu.Unlock()
		}
	}
	slices.Sort(cpu[0])
	slices.Sort(cpu[1])
	plain, judged := cpu[0][len(cpu[0])/2], cpu[1][len(cpu[1])/2]
	b.ReportMetric(float64(plain.Microseconds()), "plain-cpu-µs/op")
	b.ReportMetric(float64(judged.Microseconds()), "mcp-cpu-µs/op")
	b.ReportMetric(float64(judged)/float64(plain), "mcp/plain")
}

// cpuTime is what the process has used of the CPU.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
