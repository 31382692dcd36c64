package console

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	. "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"github.com/actionproof/mediator/internal/terminal"
)

// view is a page. At is the one that the navigation marks; the login has no navigation.
type view struct {
	At    place
	Title string
	Main  Node
}

// place is a URL of the console: a constant, or made by link from a constant path. No foreign text chooses its scheme.
type place string

// to makes the only attributes with a URL that is no constant.
func to(at place) Node { return Href(string(at)) }

// link makes the URL of a page with parameters, which come as names and values. It leaves out empty ones.
func link(path string, params ...string) place {
	v := url.Values{}
	for i := 0; i+1 < len(params); i += 2 {
		if params[i+1] != "" {
			v.Set(params[i], params[i+1])
		}
	}
	if len(v) == 0 {
		return place(path)
	}
	return place(path + "?" + v.Encode())
}

// under makes the URL of one call or session.
func under(path, id string) place { return link(path + url.PathEscape(id)) }

func (v view) write(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = v.page().Render(w) // fails only if the browser has gone
}

func (v view) page() Node {
	inside := v.At != "/login"
	return Doctype(HTML(Lang("en"),
		Head(
			Meta(Charset("utf-8")), Meta(Name("viewport"), Content("width=device-width, initial-scale=1")),
			Meta(Name("htmx-config"),
				Content(`{"includeIndicatorCSS": false, "history": false, "morphIgnore": ["open"]}`)),
			TitleEl(say("%s · mediator", v.Title)), Link(Rel("stylesheet"), Href("/static/console.css")),
			Script(Src("/static/htmx.js"), Defer()), Script(Src("/static/console.js"), Defer())),
		Body(
			A(Class("skip"), Href("#main"), Text("Skip to the content")),
			Header(A(Class("name"), Href("/"), Text("mediator")), space, If(inside, v.navigation())),
			Main(ID("main"), TabIndex("-1"), v.Main),
			If(inside, footer()))))
}

func (v view) navigation() Node {
	tabs := Group{Aria("label", "Pages")}
	for _, tab := range []struct {
		at    place
		title string
	}{{"/", "Now"}, {"/feed", "Feed"}, {"/sessions", "Sessions"}, {"/agents", "Agents"}, {"/keys", "Keys"},
		{"/manifest", "Manifest"}} {
		tabs = append(tabs, A(to(tab.at), If(tab.at == v.At, Aria("current", "page")), Text(tab.title)), space)
	}
	return Nav(tabs)
}

func footer() Node {
	return Footer(
		Details(ID("help"), Summary(Text("Keyboard")), Dl(Class("keys"),
			Dt(Kbd(Text("j")), space, Kbd(Text("k"))), Dd(Text("next and previous row")),
			Dt(Kbd(Text("Enter"))), Dd(Text("open or close the row")),
			Dt(Kbd(Text("o"))), Dd(Text("the page of the row")),
			Dt(Kbd(Text("/"))), Dd(Text("filter")),
			Dt(Kbd(Text("?"))), Dd(Text("this list")))),
		P(Text("Read-only. No record shows that no human was involved anywhere.")),
		Form(Method("post"), Action("/logout"), Button(Text("Log out"))))
}

var space = Text(" ")

// text shows foreign text, such as an agent's. No character in it steers the text around it.
func text(s string) Node { return Text(terminal.Plain(s)) }

func say(format string, args ...any) Node { return text(fmt.Sprintf(format, args...)) }

func code(s string) Node { return Code(text(s)) }

// bdi keeps a text apart that may be written from right to left.
func bdi(s string) Node { return El("bdi", text(s)) }

func label(s string) Node { return Aria("label", terminal.Plain(s)) }

func dim(content ...Node) Node { return P(Class("dim"), Group(content)) }

func alert(format string, args ...any) Node {
	return P(Class("banner bad"), Role("alert"), say(format, args...))
}

func section(id, title string, content ...Node) Node {
	return Section(Aria("labelledby", id), H2(ID(id), text(title)), Group(content))
}

// pair is a line of a list of definitions.
func pair(name string, value ...Node) Node { return Group{Dt(text(name)), Dd(value...)} }

// list shows each element, or a sentence if there is none.
func list[E any](all []E, none string, around func(...Node) Node, class string, each func(E) Node) Node {
	if len(all) == 0 {
		return P(Class("empty"), Text(none))
	}
	return around(Class(class), Map(all, each))
}

// sign is a character that a screen reader leaves out.
func sign(s string) Node { return Span(Aria("hidden", "true"), Text(s)) }

// tick shows whether something holds.
func tick(ok bool, what ...Node) Node {
	if !ok {
		return Li(Class("bad"), sign("✕"), space, Group(what))
	}
	return Li(Class("good"), sign("✓"), space, Group(what))
}

// at shows a time in short, and in whole when the pointer is on it.
func at(t time.Time, short string) Node {
	return Time(DateTime(t.UTC().Format(time.RFC3339Nano)), TitleAttr(stamp(t)+" UTC"), Text(short))
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

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
