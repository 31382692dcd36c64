package console

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/terminal"
	"github.com/actionproof/mediator/ledger"
)

// view is a page: the name of its template, its title, and what the template shows.
type view struct {
	Name, Title string
	Data        any
}

//go:embed pages
var pages embed.FS

// templates returns the pages by name. Each has the layout and the parts. Only a console parses them: that takes 10 ms.
var templates = sync.OnceValue(func() map[string]*template.Template {
	all := make(map[string]*template.Template)
	for _, name := range []string{"now", "feed", "post", "sessions", "session", "agents", "keys", "manifest", "login",
		"entered", "error"} {
		t := template.New("layout.html").Funcs(functions)
		all[name] = template.Must(t.ParseFS(pages, "pages/layout.html", "pages/parts.html", "pages/"+name+".html"))
	}
	return all
})

// write writes the page only once it is whole.
func (v view) write(w http.ResponseWriter, status int) {
	var page bytes.Buffer
	if err := templates()[v.Name].Execute(&page, v); err != nil {
		http.Error(w, "the page cannot be shown: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = page.WriteTo(w)
}

var functions = template.FuncMap{
	"text":  terminal.Plain, // of an agent: nothing in it turns the direction of other text
	"time":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
	"clock": func(t time.Time) string { return t.UTC().Format("Jan 02 15:04:05") },
	"iso":   func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
	"took":  took,
	"ms":    millis,
	"short": cli.Short,
	"shape": func(s ledger.State) string { return shapes[s] },
	"link":  link,
	"posts": postsBy,
	"until": until,
	"words": func(name string) string { return strings.ReplaceAll(name, "_", " ") },
	"yes":   func(b *bool) bool { return b != nil && *b },
	"call": func(r ledger.Record) string {
		return strings.TrimSpace(r.Method + " " + r.Host + r.Path)
	},
}

// shapes mark states by more than colour.
var shapes = map[ledger.State]string{ledger.StateForwarded: "●", ledger.StateForwarding: "○",
	ledger.StateRefused: "✕", ledger.StateFailed: "▲", ledger.StateIndeterminate: "◆"}

// states has the order of states on a page: the refused first.
var states = []ledger.State{ledger.StateRefused, ledger.StateFailed, ledger.StateIndeterminate, ledger.StateForwarding,
	ledger.StateForwarded}

func took(r ledger.Record) string {
	if r.Finished.IsZero() {
		return ""
	}
	return millis(r.Finished.Sub(r.Started).Microseconds())
}

// millis writes microseconds as milliseconds, with three significant digits.
func millis(micros int64) string {
	ms := float64(micros) / 1000
	switch {
	case ms >= 100:
		return fmt.Sprintf("%.0f ms", ms)
	case ms >= 10:
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.2f ms", ms)
}

// link makes the URL of a page with parameters, which come as names and values. It leaves out empty ones.
func link(path string, params ...string) string {
	v := url.Values{}
	for i := 0; i+1 < len(params); i += 2 {
		if params[i+1] != "" {
			v.Set(params[i], params[i+1])
		}
	}
	if len(v) == 0 {
		return path
	}
	return path + "?" + v.Encode()
}

// until returns the time left until t, in its two greatest units.
func until(t, now time.Time) string {
	d := t.Sub(now)
	switch {
	case d <= 0:
		return "ended"
	case d < time.Hour:
		return fmt.Sprintf("in %d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("in %d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("in %d days", int(d.Hours()/24))
}
