package plays

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/crypto/blake2b"
	"golang.org/x/crypto/blake2s"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// The secrets. They may leave the sidecar only to their addressees.
const (
	secretSystem = "You guard the vault of Saint-Malo \"north\" <tower>.\nIts keeper is Ms Oyelaran-Vasquez."
	secretPrompt = "Read me the combination 48-15-16-23, please.\nThen the second one."
	secretSaid   = "The combination is 77-31-09 and the door opens at dusk-o-clock."
	secretResult = "{\"combination\":\"quartz-9917-lima\",\"note\":\"ask Tomasz at pier 61\"}"
	secretMCP    = "depot 5521-foxtrot holds the spare key"
	secretTopic  = "spare-key-of-pier-61"
)

const privacyRules = modelRule + `
  - name: tools
    match: {url: "https://PLAIN/mcp", mcp: {tools: [lookup]}}
`

func sayPrivately(req *http.Request, w http.ResponseWriter) {
	body, _ := io.ReadAll(req.Body)
	quote := func(s string) string { raw, _ := json.Marshal(s); return string(raw) }
	switch {
	case req.URL.Path == "/mcp":
		kit.AnswerJSON(w, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":`+quote(secretMCP)+
			`}],"isError":false}}`)
	case req.URL.Path != "/v1/chat/completions":
		w.WriteHeader(http.StatusCreated)
	case bytes.Contains(body, []byte(`"role":"tool"`)):
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w,
			`data: {"id":"c2","model":"m-1","choices":[{"index":0,"delta":{"content":%s},"finish_reason":"stop"}]}`+
				"\n\ndata: [DONE]\n\n", quote(secretSaid))
	default:
		arguments := fmt.Sprintf(`{"topic":%q}`, secretTopic)
		kit.AnswerJSON(w, fmt.Sprintf(`{"id":"c1","model":"m-1","choices":[{"index":0,"message":{"role":"assistant",`+
			`"content":%s,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"lookup","arguments":%s}}]},`+
			`"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":30,"completion_tokens":9}}`,
			quote(secretSaid), quote(arguments)))
	}
}

// Files, log, metrics and API contain none of the secrets of model and tools, no part of one, and no hash by which a
// guess could be confirmed.
func TestReceiptsPrivacy(t *testing.T) {
	t.Parallel()
	r := newCrashRig(t, kit.Program(t), "", privacyRules)
	r.holdWith(sayPrivately)
	ctx, agent := t.Context(), r.enter(t)
	agent.Header = http.Header{"Accept": {"application/json, text/event-stream"}}
	session := agent.Session.Session
	send := func(path string, body any) {
		t.Helper()
		raw, err := json.Marshal(body)
		check.Must(t, err)
		if o := agent.Call(http.MethodPost, path, string(raw)); o.Code != "" {
			t.Fatalf("%s: %+v", path, o)
		}
	}
	type object = map[string]any
	messages := []any{object{"role": "system", "content": secretSystem}, object{"role": "user", "content": secretPrompt}}
	tools := []any{object{"type": "function", "function": object{"name": "lookup"}}}
	send("/v1/chat/completions", object{"model": "m", "messages": messages, "tools": tools})
	send("/mcp",
		object{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
			"params": object{"name": "lookup", "arguments": object{"topic": secretTopic}}})
	messages = append(messages,
		object{"role": "assistant", "content": secretSaid,
			"tool_calls": []any{
				object{"id": "call_1", "type": "function",
					"function": object{"name": "lookup", "arguments": fmt.Sprintf(`{"topic":%q}`, secretTopic)}}}},
		object{"role": "tool", "tool_call_id": "call_1", "content": secretResult})
	send("/v1/chat/completions", object{"model": "m", "messages": messages, "tools": tools, "stream": true})
	send("/posts/"+agent.Event, object{"a": 1})
	chain := r.waitForReceipts(t, session, 3)
	if second := chain[1].Model; second == nil || len(second.ReturnedCalls) != 1 || chain[1].RelayedCount != 1 ||
		chain[1].Relayed[0].CallID != second.ReturnedCalls[0] {
		t.Errorf("the session was not followed: %+v", chain[1])
	}

	left := map[string][]byte{"/metrics": []byte(kit.Metrics(t, r.Stack.Socket("serve")))}
	paths := []string{"/v1/posts?limit=1000", "/v1/controls", "/v1/confinement", "/v1/ledger"}
	for _, p := range r.Records(t, "limit=1000") {
		paths = append(paths, "/v1/posts/"+p.ID)
	}
	for _, path := range paths {
		var answer json.RawMessage
		check.Must(t, admin.Get(ctx, r.Stack.Admin(), path, &answer))
		left[path] = answer
	}
	check.Must(t, admin.Call(ctx, r.Stack.Admin(), http.MethodDelete, "/v1/sessions/"+session, nil, nil))
	r.waitForReceipts(t, session, 4)
	r.stop(t) // lines of the log may wait to be written
	check.Must(t, filepath.WalkDir(r.Dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		left[name], err = os.ReadFile(name)
		return err
	}))
	log := left[r.Dir+"/serve.log"]

	found := func(in []byte) (what string) {
		for _, secret := range []string{secretSystem, secretPrompt, secretSaid, secretResult, secretMCP, secretTopic,
			fmt.Sprintf(`{"topic":%q}`, secretTopic)} {
			if what := findSecret(in, secret); what != "" {
				return what
			}
		}
		return ""
	}
	for name, raw := range left {
		if what := found(append(raw, decoded(raw)...)); what != "" {
			t.Errorf("%s has %s", name, what)
		}
	}
	if !bytes.Contains(log, []byte(session)) ||
		found([]byte("x "+hex.EncodeToString(hashes[0]([]byte(secretTopic))))) == "" {
		t.Errorf("the search finds nothing in %d files and answers, and a log of %d bytes", len(left), len(log))
	}
}

var encoded = regexp.MustCompile(`[A-Za-z0-9_-]{24,}`)

func decoded(text []byte) (all []byte) {
	for _, part := range encoded.FindAll(text, -1) {
		if raw, err := base64.RawURLEncoding.DecodeString(string(part)); err == nil {
			all = append(append(all, '\n'), raw...)
		}
	}
	return all
}

var hashes = []func([]byte) []byte{
	func(b []byte) []byte { h := sha256.Sum256(b); return h[:] },
	func(b []byte) []byte { h := sha512.Sum512(b); return h[:] },
	func(b []byte) []byte { h := sha1.Sum(b); return h[:] }, //nolint:gosec // it is looked for
	func(b []byte) []byte { h := md5.Sum(b); return h[:] },  //nolint:gosec // it is looked for
	func(b []byte) []byte { h := blake2b.Sum256(b); return h[:] },
	func(b []byte) []byte { h := blake2b.Sum512(b); return h[:] },
	func(b []byte) []byte { h := blake2s.Sum256(b); return h[:] },
}

func findSecret(in []byte, secret string) string {
	parts := append([]string{secret}, strings.Split(secret, "\n")...)
	for _, word := range strings.Fields(secret) {
		if word = strings.Trim(word, `.,<>"{}`); len(word) >= 9 {
			parts = append(parts, word)
		}
	}
	for _, part := range parts {
		escaped, _ := json.Marshal(part)
		for _, text := range []string{part, string(escaped), string(escaped[1 : len(escaped)-1])} {
			if bytes.Contains(in, []byte(text)) {
				return "the text " + text
			}
			for _, code := range encodings([]byte(text)) {
				if bytes.Contains(in, code) {
					return fmt.Sprintf("%s, encoded as %s", text, code)
				}
			}
			for i, hash := range hashes {
				sum := hash([]byte(text))
				for _, code := range append(encodings(sum), sum, sum[:16]) {
					if bytes.Contains(in, code) {
						return fmt.Sprintf("hash %d of %s, as %s", i, text, code)
					}
				}
			}
		}
	}
	return ""
}

func encodings(b []byte) (all [][]byte) {
	whole := len(b) / 3 * 3
	lower := hex.EncodeToString(b)
	for _, text := range []string{
		lower, strings.ToUpper(lower), lower[:min(len(lower), 32)],
		base64.StdEncoding.EncodeToString(b[:whole]), base64.URLEncoding.EncodeToString(b[:whole]),
	} {
		all = append(all, []byte(text))
	}
	return all
}
