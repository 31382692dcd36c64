package viewer

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// start starts Chromium, without a display, until the test ends. It takes any certificate: those of tests are their own.
func start(t *testing.T) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(kit.Need(t, "chromium")),
		chromedp.WSURLReadTimeout(kit.Patience), chromedp.IgnoreCertErrors)
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // which Chromium refuses to root
	}
	ctx, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(cancel)
	ctx, end := chromedp.NewContext(ctx)
	t.Cleanup(end)
	check.Must(t, chromedp.Do(ctx))
	return ctx
}

// tab is a page in the browser. It notes what the page must not do.
type tab struct {
	context.Context
	t *testing.T

	mu    sync.Mutex
	noted []string
}

// open opens a file, and waits until the page has verified.
func open(t *testing.T, browser context.Context, file string) *tab {
	t.Helper()
	path, err := filepath.Abs(file)
	check.Must(t, err)
	at := (&url.URL{Scheme: "file", Path: path}).String()
	o := newTab(t, browser, at)
	o.do(chromedp.Navigate(at))
	o.until("the page verifies", `/^(Verified|Nothing)/.test(document.getElementById('state').textContent)`)
	return o
}

// newTab makes a tab that may ask for URLs with a prefix.
func newTab(t *testing.T, browser context.Context, prefix string) *tab {
	t.Helper()
	o := &tab{t: t}
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithListener(func(event any) {
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			o.note("the console: %s %s", e.Type, asJSON(e.Args))
		case *runtime.EventExceptionThrown:
			o.note("an exception: %v", e.ExceptionDetails)
		case *cdplog.EventEntryAdded:
			o.note("the log: %s", asJSON(e.Entry))
		case *page.EventJavascriptDialogOpening:
			o.note("a dialog: %s", e.Message)
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, prefix) && !strings.HasPrefix(e.Request.URL, "blob:") {
				o.note("a request: %s", e.Request.URL)
			}
		}
	}))
	t.Cleanup(cancel)
	check.Must(t, chromedp.Do(ctx))
	o.Context, cancel = context.WithTimeout(ctx, kit.Patience)
	t.Cleanup(cancel)
	call(o, network.Enable, network.EnableParams{})
	return o
}

func asJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func (o *tab) note(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.noted = append(o.noted, fmt.Sprintf(format, args...))
}

// wantQuiet fails if the page has written to the console, opened a dialog or asked for anything.
func (o *tab) wantQuiet() {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, what := range o.noted {
		o.t.Errorf("the page made %s", what)
	}
}

// eval returns the value of an expression in the page. The debugger evaluates it: the page's policy has no say.
func eval[T any](o *tab, script string) T {
	o.t.Helper()
	v, err := chromedp.Run(o, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	check.Must(o.t, err)
	return v
}

func (o *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	o.t.Helper()
	check.Must(o.t, chromedp.Do(o, actions...))
}

// call sends a command of the protocol.
func call[P, R any](o *tab, command cdp.Command[P, R], params P) R {
	o.t.Helper()
	result, err := chromedp.Call(o, command, params)
	check.Must(o.t, err)
	return result
}

// until waits for a condition in the page. A browser that leaves the page cannot say: it is asked again.
func (o *tab) until(what, condition string) {
	o.t.Helper()
	var failed error
	if !kit.Eventually(func() bool {
		so, err := chromedp.Run(o, chromedp.Evaluate[bool](condition, chromedp.EvalAwaitPromise))
		failed = err
		return err == nil && so
	}) {
		check.Must(o.t, failed)
		o.t.Fatalf("not so: %s; the page says %s", what, eval[string](o, `document.body.innerText`))
	}
}

func (o *tab) text(selector string) string {
	o.t.Helper()
	return eval[string](o, fmt.Sprintf(`document.querySelector(%q).innerText`, selector))
}

func (o *tab) want(selector string, texts ...string) {
	o.t.Helper()
	for said, i := o.text(selector), 0; i < len(texts); i++ {
		if !strings.Contains(said, texts[i]) {
			o.t.Errorf("%s does not say %q: %.1000s", selector, texts[i], said)
		}
	}
}

// unfold opens everything that can be opened, also what appears in what it opens.
func (o *tab) unfold() {
	o.t.Helper()
	o.until("all is open", `(() => {
		const closed = [...document.querySelectorAll('details:not([open])')];
		closed.forEach((d) => { d.open = true; });
		return closed.length === 0;
	})()`)
}

// result is one of the four results, in words.
func (o *tab) result(name string) string {
	return eval[string](o, fmt.Sprintf(`document.getElementById(%q).innerText`, name))
}
