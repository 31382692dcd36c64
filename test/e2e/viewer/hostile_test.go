package viewer

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// hostile are texts that a careless page would take for its own, and what the page shows for them.
var hostile = []struct{ text, shown string }{
	{`<img src=x onerror=alert(1)>`, ""},
	{`</script><script>alert(1)</script>`, ""},
	{`"><svg onload=alert(1)>`, ""},
	{`' onmouseover='alert(1)`, ""},
	{`<iframe src="https://example.com/">`, ""},
	{`<style>*{display:none}</style>`, ""},
	{`<!--`, ""}, {`]]>`, ""}, {`&lt;b&gt;`, ""}, {"`${alert(1)}`", ""}, {`{{data}}`, ""}, {`$&`, ""},
	{`javascript:alert(1)`, ""}, {`https://example.com/beacon.png`, ""},
	{`__proto__`, ""}, {`constructor`, ""}, {`toString`, ""},
	{"\u202egnp.exe", `\u{202e}gnp.exe`},
	{"\u2066\u200bzero", `\u{2066}\u{200b}zero`},
	{"\x00\x1b[2J\r\nAuthentic: all", `\u{0}\u{1b}[2J\u{d}\u{a}Authentic: all`},
	{"\u2028line", `\u{2028}line`},
	{strings.Repeat("W", 5000), "… (1000 more characters)"},
}

// maxClaim bounds a hostile claim in bytes: a record has one line, which has a bound.
const maxClaim = 1000

// altered is the export with another first record.
func (e exported) altered(t *testing.T, r ledger.Record) string {
	t.Helper()
	at, _ := e.record(t)
	lines := append([]string(nil), e.lines...)
	raw, err := json.Marshal(map[string]any{"record": r})
	check.Must(t, err)
	lines[at] = string(raw) + "\n"
	return save(t, lines)
}

// testHostile puts hostile texts wherever a record and its artifacts have texts, into the file's name, and into what
// the page's maker pins.
func testHostile(t *testing.T, e exported) {
	for i, h := range hostile {
		t.Run(fmt.Sprintf("%.20q", h.text), func(t *testing.T) {
			_, r := e.record(t)
			for _, to := range []*string{&r.ID, &r.Rule, &r.Subject, &r.Action, &r.Resource, &r.Host, &r.Path, &r.Message,
				&r.Code, &r.Step, &r.Reason, &r.Result, &r.Event, &r.Session, &r.Method} {
				*to = h.text
			}
			for i := range r.Artifacts {
				r.Artifacts[i].Token = infested(t, r.Artifacts[i].Token, h.text[:min(len(h.text), maxClaim)])
			}
			dir := t.TempDir()
			name := filepath.Join(dir, "evil "+strings.NewReplacer("/", "_", "\x00", "").Replace(h.text[:min(len(h.text), 80)]))
			kit.Write(t, name, kit.Read(t, e.altered(t, r)))
			kit.Write(t, filepath.Join(dir, "policy"), "# "+strings.NewReplacer("\x00", "", "\x1b", "", "\r", "", "\n", "",
				"\u2028", "").Replace(h.text)+"\n"+string(kit.Read(t, e.In("log-policy.txt"))))
			key := map[string]any{}
			check.Must(t, json.Unmarshal(kit.Read(t, e.In(devstack.RegistryFile)), &key))
			key["kid"] = h.text[:min(len(h.text), 200)]
			raw, err := json.Marshal(key)
			check.Must(t, err)
			kit.Write(t, filepath.Join(dir, "registry.jwk"), raw)
			flags := append(e.Trust()[:6], "--log-policy", filepath.Join(dir, "policy"))
			e.wantText(t, open(t, e.browser, e.page(t, name, flags...)), h.text, h.shown)
			if i < 3 { // with a root of that name
				flags[1] = filepath.Join(dir, "registry.jwk")
				e.wantText(t, open(t, e.browser, e.page(t, name, flags...)), h.text, h.shown)
			}
		})
	}
}

// wantText fails if a text became more than text.
func (e exported) wantText(t *testing.T, o *tab, text, shown string) {
	t.Helper()
	if shown == "" {
		shown = text
	}
	o.unfold()
	o.want("#posts", shown)
	o.want("#sessions", shown)
	if len(text) <= maxClaim {
		o.want("#posts .tree", shown)
	}
	for what, n := range eval[map[string]int](o, `Object.fromEntries(['script', 'style', 'meta',
		'img, svg, iframe, object, embed, link, base, video, audio, template', '[onload], [onerror], [onmouseover], [style]',
		'a[href]:not([href^="#"])'].map((s) => [s, document.querySelectorAll(s).length]))`) {
		if want := map[string]int{"script": 2, "style": 1, "meta": 4}[what]; n != want {
			t.Errorf("the page has %d of %s, want %d", n, what, want)
		}
	}
	o.wantQuiet()
}

// infested puts a text into every claim that is a text, and into the header.
func infested(t *testing.T, token, text string) string {
	t.Helper()
	parts := strings.Split(token, ".")
	for i, part := range parts[:2] {
		raw, err := base64.RawURLEncoding.DecodeString(part)
		check.Must(t, err)
		members := map[string]any{}
		check.Must(t, json.Unmarshal(raw, &members))
		for name, value := range members {
			if _, is := value.(string); is && name != "alg" && name != "typ" {
				members[name] = text
			}
		}
		members[text] = text
		raw, err = json.Marshal(members)
		check.Must(t, err)
		parts[i] = base64.RawURLEncoding.EncodeToString(raw)
	}
	return strings.Join(parts, ".")
}
