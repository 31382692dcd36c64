// Package viewer tests the page of posts open, and the console, in Chromium. It is a module of its own, because it
// drives the browser with a library that the program does not need.
package viewer

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/translog/leaf"
)

func TestMain(m *testing.M) { kit.Main(m, nil) }

// exported is an export of a real deployment with a witnessed log.
type exported struct {
	*kit.LoggedRig
	browser context.Context
	file    string
	lines   []string
}

func TestPage(t *testing.T) {
	t.Parallel()
	e := exported{LoggedRig: kit.NewLoggedRig(t, ""), browser: start(t), file: filepath.Join(t.TempDir(), "all.jsonl")}
	agent := e.OpenAgent(t)
	agent.MustPost(t)
	agent.MustPost(t)
	e.Audited(t, map[leaf.Kind]int64{leaf.Intent: 2, leaf.Outcome: 2})
	kit.Run(t, kit.With([]string{"posts", "export", "--out", e.file, "--flow", "post", "--admin", e.Stack.Admin()},
		e.Trust()...)...)
	for line := range strings.Lines(string(kit.Read(t, e.file))) {
		e.lines = append(e.lines, line)
	}
	for name, test := range map[string]func(*testing.T, exported){
		"good": testGood, "altered": testAltered, "forged receipt": testForgedReceipt, "hostile": testHostile, "keys": testKeys, "accessible": testAccessible,
		"keyboard": testKeyboard, "paper": testPaper,
	} {
		t.Run(name, func(t *testing.T) { test(t, e) })
	}
}

// trust returns the flags for what is pinned, which open and verify have both.
func (e exported) trust() []string {
	return append(e.Trust()[:6], "--log-policy", e.In("log-policy.txt"))
}

// page makes the page of a file.
func (e exported) page(t *testing.T, file string, flags ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "page.html")
	kit.Mediator(t, append([]string{"posts", "open", file, "--out", out}, flags...)...).Done("wrote " + out)
	return out
}

// save writes lines as an export.
func save(t *testing.T, lines []string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "altered.jsonl")
	kit.Write(t, file, strings.Join(lines, ""))
	return file
}

var resultLine = regexp.MustCompile(`(?m)^(Authentic|Untampered|Witnessed|Complete): +(.*)$`)

// wantSame compares the results of the page with those of mediator verify.
func (e exported) wantSame(t *testing.T, o *tab, file string) {
	t.Helper()
	said := kit.Mediator(t, append([]string{"verify", file}, e.trust()...)...).Out
	lines := resultLine.FindAllStringSubmatch(said, -1)
	if len(lines) != 4 {
		t.Fatalf("verify says\n%s", said)
	}
	for _, line := range lines {
		if got := o.result(strings.ToLower(line[1])); !strings.Contains(got, line[2]) {
			t.Errorf("%s: the page says %q, verify %q", line[1], got, line[2])
		}
	}
}

func testGood(t *testing.T, e exported) {
	o := open(t, e.browser, e.page(t, e.file, e.trust()...))
	e.wantSame(t, o, e.file)
	if got := o.result("witnessed"); !strings.Contains(got, "w saw 2 of 2 records by 2") {
		t.Errorf("Witnessed: %s", got)
	}
	o.want("#pins", "Pinned by whoever made this page", e.key(t, devstack.RegistryFile),
		e.key(t, devstack.AuditorFile))
	o.want("#pins", "history does not", "with no revocation list: what was revoked is not known")
	o.want("#count", "2 posts in the export, 0 of them refused.")
	o.want("#command", "mediator verify all.jsonl --registry registry.jwk --auditor auditor.jwk --log-policy log-policy.txt")
	o.unfold()
	o.want("#posts", "authentic", "request proof", "capability", "a secret of its gate: not verified here",
		"deployment certificate", "fresh work", "runtime attestation", "trigger receipt", "origin proof", "session receipt",
		"action grant", "policy decision", "signature and links verified", "humanOperatorPresent\nfalse declared",
		"observed, compared", "(host: the record’s own word)", "method\nPOST proven by signatures")
	o.want("#sessions", "2 posts, ", "observed by the sidecar, signature verified", "completed")
	for _, line := range e.lines {
		var record struct{ Record ledger.Record }
		if json.Unmarshal([]byte(line), &record) == nil {
			for _, a := range record.Record.Artifacts {
				o.want("#posts", a.Token)
			}
		}
	}
	dir := t.TempDir()
	_, err := chromedp.CallBrowser(o, browser.SetDownloadBehavior,
		browser.SetDownloadBehaviorParams{Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir})
	check.Must(t, err)
	o.do(chromedp.Click(chromedp.CSS("#save")))
	kit.Until(t, "the export is saved", func() bool {
		raw, err := os.ReadFile(filepath.Join(dir, "all.jsonl"))
		return err == nil && bytes.Equal(raw, kit.Read(t, e.file))
	})
	o.wantQuiet()
}

// key returns the public key in the file of a root.
func (e exported) key(t *testing.T, file string) string {
	t.Helper()
	var jwk struct{ X string }
	check.Must(t, json.Unmarshal(kit.Read(t, e.In(file)), &jwk))
	return jwk.X
}

// testAltered alters each artifact, and what the record says. The page names the same break as mediator verify.
func testAltered(t *testing.T, e exported) {
	at, record := e.record(t)
	cases := map[string]func(r *ledger.Record){
		"another host":   func(r *ledger.Record) { r.Host = "other.example:443" },
		"another status": func(r *ledger.Record) { r.Status = 500 },
		"another path":   func(r *ledger.Record) { r.Path += "/x" },
		"an artifact too few": func(r *ledger.Record) {
			r.Artifacts = r.Artifacts[:len(r.Artifacts)-1]
		},
	}
	for i, a := range record.Artifacts {
		cases[a.Name] = func(r *ledger.Record) { r.Artifacts[i].Token = spoiled(a.Token) }
	}
	for name, alter := range cases {
		t.Run(name, func(t *testing.T) {
			_, r := e.record(t)
			alter(&r)
			lines := append([]string(nil), e.lines...)
			raw, err := json.Marshal(map[string]any{"record": r})
			check.Must(t, err)
			lines[at] = string(raw) + "\n"
			file := save(t, lines)
			o := open(t, e.browser, e.page(t, file, e.trust()...))
			e.wantSame(t, o, file)
			o.unfold()
			for line := range strings.Lines(kit.Mediator(t, append([]string{"verify", file, "--json"}, e.trust()...)...).Out) {
				var post struct{ ID, Result, Check, Code string }
				if json.Unmarshal([]byte(line), &post) == nil && post.Result == "refused" {
					o.want("#posts", "REFUSED "+post.ID, fmt.Sprintf("Broken at %s, %s: ", post.Check, post.Code))
				}
			}
			o.wantQuiet()
		})
	}
}

// testForgedReceipt adds an unsigned receipt of another owner. The records do not rest on it, and the page does not say
// that it is verified.
func testForgedReceipt(t *testing.T, e exported) {
	lines := append([]string(nil), e.lines...)
	end := len(lines) - 1
	var last struct{ Receipt string }
	check.Must(t, json.Unmarshal([]byte(lines[end-1]), &last))
	parts := strings.Split(last.Receipt, ".")
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	check.Must(t, err)
	claims := map[string]any{}
	check.Must(t, json.Unmarshal(raw, &claims))
	claims["owner"] = strings.Repeat("A", 43)
	raw, err = json.Marshal(claims)
	check.Must(t, err)
	parts[1] = base64.RawURLEncoding.EncodeToString(raw)
	raw, err = json.Marshal(map[string]string{"receipt": strings.Join(parts, ".")})
	check.Must(t, err)
	with := func(receipts int) *tab {
		forged := strings.Repeat(string(raw)+"\n", receipts)
		return open(t, e.browser, e.page(t, save(t, append(lines[:end:end], forged, lines[end])), e.trust()...))
	}
	o := with(1)
	o.want("#count", "2 posts in the export, 0 of them refused.")
	o.unfold()
	o.want("#sessions", "signature verified", "receipt not verified")
	o.wantQuiet()
	o = with(100) // which no record asks for
	o.want("#state", "The export as a whole is refused")
	o.want("#count", "2 posts in the export, 2 of them refused")
	o.unfold()
	o.want("#posts", "REFUSED", "Broken at export, evidence_malformed: ")
	if posts := o.text("#posts"); strings.Contains(posts, "authentic") || strings.Contains(posts, "proven by") {
		t.Errorf("the page says %.1000s", posts)
	}
	o.wantQuiet()
	o = open(t, e.browser, e.page(t, save(t, lines[:end]), e.trust()...))
	o.want("#count", "No post was verified.")
	o.wantQuiet()
}

// record returns the first record, and its line.
func (e exported) record(t *testing.T) (at int, r ledger.Record) {
	t.Helper()
	for i, line := range e.lines {
		var l struct{ Record *ledger.Record }
		if json.Unmarshal([]byte(line), &l) == nil && l.Record != nil {
			return i, *l.Record
		}
	}
	t.Fatal("the export has no record")
	return 0, r
}

// spoiled changes the first character of a token's signature.
func spoiled(token string) string {
	at := strings.LastIndexByte(token, '.') + 1
	c := "A"
	if token[at] == 'A' {
		c = "B"
	}
	return token[:at] + c + token[at+1:]
}

// testKeys pins other keys than the page's maker did.
func testKeys(t *testing.T, e exported) {
	o := open(t, e.browser, e.page(t, e.file, e.trust()...))
	f := gatetest.New(t).Files(t, t.TempDir())
	paste := func(registry, auditor string) {
		eval[bool](o, `document.getElementById('own').closest('details').open = true`)
		o.do(chromedp.SetValue(chromedp.CSS("#registry"), registry), chromedp.SetValue(chromedp.CSS("#auditor"), auditor),
			chromedp.Click(chromedp.CSS("#own button:not([type])")))
	}
	paste(string(kit.Read(t, f.Registry)), string(kit.Read(t, f.Auditor)))
	o.until("nothing is pinned", `document.querySelector('#count').innerText.includes('2 of them refused')`)
	o.unfold()
	o.want("#pins", "Pinned by you")
	o.want("#posts", "roots_not_pinned")
	paste(string(kit.Read(t, e.In(devstack.RegistryFile))), string(kit.Read(t, e.In(devstack.AuditorFile))))
	o.until("the right keys verify", `document.querySelector('#count').innerText.includes('0 of them refused')`)
	o.want("#pins", "Pinned by you")
	paste("nonsense", "{}")
	o.want("#problem", "not JSON")
	o.do(chromedp.Click(chromedp.CSS("#reset")))
	o.until("the maker's keys count again", `document.querySelector('#pins').innerText.includes('whoever made this page')`)
	o.wantQuiet()
}

// testKeyboard opens an artifact with keys alone.
func testKeyboard(t *testing.T, e exported) {
	o := open(t, e.browser, e.page(t, e.file, e.trust()...))
	focused := func(selector string) bool {
		return eval[bool](o, fmt.Sprintf(`document.activeElement.matches(%q)`, selector))
	}
	tabTo := func(selector string) {
		t.Helper()
		for range 200 {
			if o.do(chromedp.KeyEvent(kb.Tab)); focused(selector) {
				return
			}
		}
		t.Fatalf("no key leads to %s", selector)
	}
	tabTo(".skip")
	o.do(chromedp.KeyEvent(kb.Enter))
	tabTo("#posts > details > summary")
	o.do(chromedp.KeyEvent(kb.Enter))
	o.until("the post is open", `document.querySelector('#posts .tree') !== null`)
	tabTo("#posts .tree summary")
	o.do(chromedp.KeyEvent(" "))
	o.until("the artifact is open", `document.querySelector('#posts .token') !== null`)
	tabTo(".token")
	o.wantQuiet()
}

// testAccessible checks the page with axe-core (WCAG 2.2 AA), in light and dark, and that nothing is wider than it is.
func testAccessible(t *testing.T, e exported) {
	_, record := e.record(t)
	record.Artifacts[5].Token = spoiled(record.Artifacts[5].Token)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 400, 320} {
			t.Run(fmt.Sprint(scheme, " ", width), func(t *testing.T) {
				o := open(t, e.browser, e.page(t, e.altered(t, record), e.trust()...))
				o.do(chromedp.EmulateViewport(width, 800))
				o.emulate("", scheme)
				o.unfold()
				o.wantNoWider()
				o.wantQuiet()
				o.wantAccessible()
			})
		}
	}
}

// wantAccessible fails if axe-core finds anything in the page.
func (o *tab) wantAccessible() {
	o.t.Helper()
	axe := kit.Read(o.t, filepath.Join(kit.Top, "packages/typescript/node_modules/axe-core/axe.min.js"))
	call(o, page.SetBypassCSP, page.SetBypassCSPParams{Enabled: true})
	eval[chromedp.Void](o, string(axe))
	found := eval[[]struct {
		ID    string
		Nodes []struct{ HTML, FailureSummary string }
	}](o, `axe.run(document, {resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa',
		'wcag22aa', 'best-practice']}).then((r) => r.violations)`)
	for _, v := range found {
		o.t.Errorf("%s: %+v", v.ID, v.Nodes[0])
	}
	call(o, page.SetBypassCSP, page.SetBypassCSPParams{Enabled: false})
}

// emulate sets the medium and the scheme of colours.
func (o *tab) emulate(media, scheme string) {
	o.t.Helper()
	call(o, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: media,
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// wantNoWider fails if the page has to be scrolled sideways.
func (o *tab) wantNoWider() {
	o.t.Helper()
	if wide := eval[[]string](o, `[...document.querySelectorAll('body *')].filter((e) =>
		!e.closest('.skip') && e.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5)
		.map((e) => e.outerHTML.slice(0, 200))`); len(wide) > 0 {
		o.t.Errorf("%d elements are wider than the page, such as %s", len(wide), wide[0])
	}
}

// testPaper prints the page on A4.
func testPaper(t *testing.T, e exported) {
	o := open(t, e.browser, e.page(t, e.file, e.trust()...))
	pdf, err := chromedp.Run(o, chromedp.PrintToPDF(chromedp.PDFPreferCSSPageSize()))
	check.Must(t, err)
	boxes := regexp.MustCompile(`/MediaBox \[([^\]]*)\]`).FindAllSubmatch(pdf, -1)
	if len(boxes) < 1 || len(boxes) > 6 {
		t.Errorf("it has %d pages", len(boxes))
	}
	for _, box := range boxes {
		var x, y, width, height float64
		_, err := fmt.Sscan(string(box[1]), &x, &y, &width, &height)
		if check.Must(t, err); width < 594 || width > 596 || height < 841 || height > 843 {
			t.Errorf("a page is %v by %v points", width, height)
		}
	}
	// What print shows, in the width between the margins of A4: a wider page would be shrunk.
	o.do(chromedp.EmulateViewport(680, 1000))
	o.emulate("print", "light")
	eval[bool](o, `dispatchEvent(new Event('beforeprint'))`)
	o.wantNoWider()
	o.want("#posts", "policy decision", "request proof")
	if shown := eval[bool](o, `[...document.querySelectorAll('button, .token')].some((e) => e.offsetHeight > 0)`); shown {
		t.Error("paper has buttons or tokens")
	}
	o.wantQuiet()
}
