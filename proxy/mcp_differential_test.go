package proxy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/mcp"
)

// variants makes slightly malformed messages and headers, reproducibly.
type variants struct{ *rand.Rand }

func (v variants) pick(of ...string) string { return of[v.IntN(len(of))] }

// seldom mostly returns usual.
func (v variants) seldom(usual string, others ...string) string {
	if v.IntN(12) == 0 {
		return v.pick(others...)
	}
	return usual
}

// escaped writes some letters as JSON escapes.
func (v variants) escaped(s string) string {
	var b strings.Builder
	for _, c := range s {
		if v.IntN(6) == 0 {
			fmt.Fprintf(&b, `\u%04x`, c)
		} else {
			b.WriteRune(c)
		}
	}
	return b.String()
}

func (v variants) message() string {
	tool := v.escaped(
		v.seldom(v.pick("get_issue", "create_issue"), "delete_repo", "Create_Issue", "create_issue ", "create_iſsue",
			"ｃreate_issue"))
	params := []string{fmt.Sprintf(`"%s":"%s"`, v.seldom("name", "Name", "NAME", `n\u0061me`, `name\u0000`), tool),
		`"arguments":` + v.seldom(`{"title":"a"}`, `{}`, `null`, `[]`, `{"title":"a","Title":"b"}`)}
	if v.IntN(12) == 0 {
		params = append(params,
			v.pick(`"Name":"create_issue"`, `"name":"create_issue"`,
				`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`, `"ARGUMENTS":{"title":"c"}`,
				`"task":{"ttl":1}`))
	}
	all := []string{`"` + v.seldom("jsonrpc", "JSONRPC") + `":"2.0"`,
		`"` + v.seldom("id", "ID", "Id") + `":` + v.seldom("1", `"1"`, "1.0", "1e0", "null", "-0", "9007199254740993"),
		fmt.Sprintf(`"%s":"%s"`, v.seldom("method", "Method", `m\u0065thod`),
			v.escaped(v.seldom("tools/call", "tools/list", "ping", "Tools/Call", "tools/call "))),
		`"` + v.seldom("params", "Params", "paramſ") + `":{` + strings.Join(params, ",") + `}`}
	if v.IntN(12) == 0 {
		all = append(all,
			v.pick(`"method":"ping"`, `"Method":"tools/call"`, `"params":{"name":"create_issue"}`,
				`"PARAMS":{"name":"create_issue"}`, `"result":{}`))
	}
	if v.IntN(4) == 0 {
		v.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
	text := "{" + strings.Join(all, v.seldom(",", " ,\n", ",,")) + "}"
	return v.seldom(v.seldom(text, "["+text+"]", text+text, text+"\n"+text, text+" "), "\xef\xbb\xbf"+text, "\n"+text,
		text+"//", strings.Replace(text, ":", "=", 1))
}

func (v variants) header() []string {
	switch v.IntN(16) {
	case 0:
		return []string{"Mcp-Method", v.pick("tools/call", "tools/list", "Tools/Call")}
	case 1:
		return []string{"Mcp-Name", v.pick("get_issue", "create_issue", "=?base64?Z2V0X2lzc3Vl?=")}
	case 2:
		return []string{"Mcp-Protocol-Version", v.pick("2025-06-18", "2025-03-26", "2024-11-05", "2026-07-28")}
	case 3:
		return []string{"Content-Encoding", v.pick("gzip", "identity", "br")}
	}
	return nil
}

// The official SDK's server understands each message as it is recorded, or does not get it.
func TestMCPDifferential(t *testing.T) {
	var mu sync.Mutex // guards understood
	var understood []string
	server := sdk.NewServer(&sdk.Implementation{Name: "issues", Version: "1"}, nil)
	for _, name := range []string{"create_issue", "get_issue", "delete_repo", "Create_Issue"} {
		server.AddTool(&sdk.Tool{Name: name, InputSchema: map[string]any{"type": "object"}},
			func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				return &sdk.CallToolResult{}, nil
			})
	}
	server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			does := method
			if call, ok := req.(*sdk.CallToolRequest); ok {
				does += " " + call.Params.Name
			}
			mu.Lock()
			understood = append(understood, does)
			mu.Unlock()
			return next(ctx, method, req)
		}
	})
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server {
		return server
	}, &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true, DisableLocalhostProtection: true})
	r := toolRig(t, handler.ServeHTTP, func(o *PipelineOptions) {
		o.Load = unlimited
	})
	v := variants{rand.New(rand.NewPCG(1, 2))}
	passed := 0
	for range 2000 {
		mu.Lock()
		understood = nil
		mu.Unlock()
		body, header := v.message(), v.header()
		_, before := r.record.last()
		_, answer := r.send("POST", "/mcp", body, slices.Concat(both, header)...)
		rec := r.wait(before + 1)
		mu.Lock()
		got := slices.Clone(understood)
		mu.Unlock()
		if rec.State == ledger.StateRefused {
			if len(got) > 0 {
				t.Errorf("%s %q was refused (%s), and the server has understood %q", body, header, rec.Code, got)
			}
			continue
		}
		passed++
		if len(got) > 1 || len(got) == 1 && got[0] != rec.Message {
			t.Errorf("%s %q is recorded as %q, and the server has understood %q", body, header, rec.Message, got)
		}
		if called := len(got) == 1 &&
			got[0] == "tools/call create_issue"; called != (rec.Flow == flowPost && len(got) == 1) ||
			rec.Result == string(mcp.ResultOK) && len(got) != 1 {
			t.Errorf("%s is recorded as %s with the result %s, and the server has understood %q: %s", body, rec.Flow,
				rec.Result, got, answer)
		}
	}
	if passed < 200 {
		t.Errorf("only %d messages passed", passed)
	}
	t.Logf("%d messages passed", passed)
}
