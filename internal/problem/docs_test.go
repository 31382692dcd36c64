package problem_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/test/check"
)

var update = flag.Bool("update", false, "write docs/errors.md")

// TestDocsErrors compares docs/errors.md with the table; -update writes it.
func TestDocsErrors(t *testing.T) {
	const path = "../../docs/errors.md"
	want := page()
	if *update {
		check.Must(t, os.WriteFile(path, []byte(want), 0o644))
	}
	got, err := os.ReadFile(path)
	check.Must(t, err)
	if string(got) != want {
		t.Error("docs/errors.md is not what the table says: run make docs")
	}
}

// head begins the page, with ~ for a backtick.
const head = `# Errors

~make docs~ makes this page.

A refusal over HTTP is an RFC 9457 problem (~application/problem+json~) with these members:

- ~code~ is stable. Each line has a code, its HTTP status, the cause and the remedy.
- ~step~ is the step or part that refused, and groups the codes below.
- ~detail~ describes this occurrence. Agents get it only for codes with an asterisk, else the title.
- ~post~ is the ID of the record, if any, for ~mediator posts show~.
- ~message~ and ~error~ repeat ~code~ and ~detail~, for SDKs that read nothing else.

The header ~Retry-After~ says when a later try can succeed.
`

func page() string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(head, "~", "`"))
	step := ""
	for _, c := range problem.Codes() {
		if c.Step != step {
			step = c.Step
			fmt.Fprintf(&b, "\n## %s\n\n", step)
		}
		mark := ""
		if c.Public {
			mark = "\\*"
		}
		line := fmt.Sprintf("- <a id=%q></a>`%s`%s %s", c.Name, c.Name, mark, c.Text())
		b.WriteString(wrapped(line, 118, "  ") + "\n")
	}
	return b.String()
}

// wrapped breaks a line at spaces into lines of at most so many bytes.
func wrapped(line string, most int, indent string) string {
	var out strings.Builder
	at := 0
	for i, word := range strings.Split(line, " ") { // the one space in <a id=...> comes first and is never reached
		if i > 0 && at+1+len(word) > most {
			out.WriteString("\n" + indent)
			at = len(indent)
		} else if i > 0 {
			out.WriteString(" ")
			at++
		}
		out.WriteString(word)
		at += len(word)
	}
	return out.String()
}

// TestMembersForSDKs: many vendors' SDKs read only {"message"} or {"error": {"code", "message"}}.
func TestMembersForSDKs(t *testing.T) {
	w := httptest.NewRecorder()
	problem.Write(w, refusal.New("egress_denied", "no rule names it"))
	var got struct {
		Code, Detail, Message string
		Error                 struct{ Code, Message string }
	}
	check.Must(t, json.Unmarshal(w.Body.Bytes(), &got))
	if !strings.HasSuffix(w.Body.String(), "}\n") { // a prompt after it in a terminal begins a line
		t.Errorf("got %q", w.Body)
	}
	if got.Code != "egress_denied" || got.Error.Code != got.Code || got.Detail != "no rule names it" ||
		got.Message != got.Detail || got.Error.Message != got.Detail {
		t.Errorf("got %s", w.Body)
	}
}

func TestFromTellsNothingOfWhatNobodyClassified(t *testing.T) {
	d := problem.DetailsOf(fmt.Errorf("dial 10.0.0.1: password hunter2"))
	if d.Code != "internal" || strings.Contains(d.Detail, "hunter2") || strings.Contains(d.Detail, "10.0.0.1") {
		t.Errorf("got %+v", d)
	}
}

func TestEveryCodeIsInTheTable(t *testing.T) {
	used := make(map[string]bool)
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.HasSuffix(path, "/problem/table.go") {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range refusals.FindAllStringSubmatch(string(raw), -1) {
			if !problem.Known(m[1]) {
				t.Errorf("%s: the code %s is not in the table", path, m[1])
			}
		}
		for _, m := range literals.FindAllStringSubmatch(string(raw), -1) {
			used[m[1]] = true
		}
		return nil
	})
	check.Must(t, err)
	for _, c := range problem.Codes() {
		if !used[c.Name] {
			t.Errorf("nobody uses the code %s", c.Name)
		}
		if c.Title == "" || c.Remedy == "" || c.Step == "" || c.Status < 400 ||
			(c.Status == http.StatusUnauthorized) != (c.Authenticate != "") {
			t.Errorf("the row of %s is incomplete", c.Name)
		}
	}
}

var (
	refusals = regexp.MustCompile(`refusal\.New\("([a-z_]+)"`)
	literals = regexp.MustCompile(`"([a-z]+(?:_[a-z]+)*)"`)
)

func TestWrite(t *testing.T) {
	w := httptest.NewRecorder()
	problem.Details{Status: http.StatusProxyAuthRequired, Code: "session_required", Authenticate: "Scheme",
		RetryAfter: 3}.Write(w)
	for name, want := range map[string]string{"WWW-Authenticate": "Scheme", "Content-Type": problem.ContentType,
		"Proxy-Authenticate": `Basic realm="mediator"`, "Retry-After": "3", "Cache-Control": "no-store",
		"X-Content-Type-Options": "nosniff"} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	err := problem.Read(w.Result())
	var p *problem.Error
	if !errors.As(err, &p) || p.Code() != "session_required" {
		t.Errorf("got %v", err)
	}
}

func TestWriteSaysNothingOfWhatItDoesNotHave(t *testing.T) {
	w := httptest.NewRecorder()
	problem.Details{Status: http.StatusForbidden, Code: "policy_denied"}.Write(w)
	for _, name := range []string{"WWW-Authenticate", "Proxy-Authenticate", "Retry-After"} {
		if got := w.Header().Values(name); got != nil {
			t.Errorf("%s: %q", name, got)
		}
	}
	w = httptest.NewRecorder()
	if (problem.Details{Status: http.StatusForbidden, Challenge: json.RawMessage("{")}).Write(w); w.Code !=
		http.StatusInternalServerError {
		t.Errorf("half a challenge: %d", w.Code)
	}
}

func TestReadRefuses(t *testing.T) {
	const good = `{"code":"policy_denied"}`
	for name, tt := range map[string]struct {
		body io.Reader
		want string
	}{
		"a document":       {strings.NewReader(good), ""},
		"one at the bound": {strings.NewReader(good + strings.Repeat(" ", 64<<10-len(good))), ""},
		"one beyond it":    {strings.NewReader(strings.Repeat(" ", 64<<10) + good), "without a problem document"},
		"no code":          {strings.NewReader(`{"code":"","title":"t"}`), "without a problem document"},
		"no JSON":          {strings.NewReader("<html>"), "without a problem document"},
		"one that breaks off": {io.MultiReader(strings.NewReader(good), iotest.ErrReader(io.ErrUnexpectedEOF)),
			"unexpected EOF"},
	} {
		err := problem.Read(&http.Response{Status: "403 Forbidden", Body: io.NopCloser(tt.body)})
		if coded := (*problem.Error)(nil); errors.As(err, &coded) != (tt.want == "") || tt.want != "" &&
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// plain is an error with a code that says nothing of who may read its sentence.
type plain string

func (p plain) Code() string { return string(p) }

func (p plain) Error() string { return "the key runtime-key" }

func TestForAgent(t *testing.T) {
	const hidden = "runtime-key:v1 at transit/sign"
	for _, c := range problem.Codes() {
		err := fmt.Errorf("not shown either: %w", refusal.New(c.Name, "the words").ForOperator(hidden))
		full, agents := problem.DetailsOf(err), problem.ForAgent(err, "post_1")
		want := c.Title + "; the operator can see why: mediator posts show post_1"
		if c.Public {
			want = "the words"
		}
		if agents.Detail != want || agents.Post != "post_1" || agents.Code != c.Name || agents.Status != c.Status ||
			agents.Remedy != c.Remedy {
			t.Errorf("%s: an agent gets %+v", c.Name, agents)
		}
		if full.Detail != "the words, "+hidden {
			t.Errorf("%s: an operator gets %q", c.Name, full.Detail)
		}
		w := httptest.NewRecorder()
		agents.Write(w)
		if answer := w.Body.String(); strings.Contains(answer, hidden) || !c.Public && strings.Contains(answer, "the words") {
			t.Errorf("%s: the answer is %s", c.Name, answer)
		}
	}
	for name, tt := range map[string]struct {
		err  error
		post string
		want string
	}{
		"no record": {refusal.New("custody_unavailable", hidden), "",
			"A key or a credential is unavailable"},
		"a public code of another error": {plain("event_none"), "", "No event is waiting"},
		"what another process says": {
			&problem.Error{Details: problem.Details{Code: "event_none", Detail: "no event came"}}, "", "no event came"},
		"what it says of its own": {&problem.Error{Details: problem.Details{Code: "key_unknown", Detail: hidden}}, "",
			"A key has no custody certificate from the pinned registry"},
		"no code":               {errors.New(hidden), "p", "the call could not be handled; nothing was sent"},
		"no code that is known": {plain("no_such_code"), "", "the call could not be handled; nothing was sent"},
	} {
		if got := problem.ForAgent(tt.err, tt.post).Detail; got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
