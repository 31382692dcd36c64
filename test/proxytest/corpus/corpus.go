// Package corpus reads the raw exchanges of proxy/testdata/raw.
package corpus

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/check"
)

// Exchange is one conversation of an agent with the proxy, byte by byte; testdata/raw/README.md describes its text.
type Exchange struct {
	Name     string
	Via      string // "port", or the authority of a tunnel
	ALPN     string // in the tunnel's TLS: "http/1.1", "h2", or empty for a tunnel without TLS
	Steps    []Step
	Upstream string // every byte that the upstream receives, in order
}

// Step is what one side of an exchange does.
type Step struct {
	Kind byte   // '>' the agent sends text, '<' it expects text, '!' it closes its side
	Text string // of '>' as it goes out, with HTTP/2 the text of Frames; of '<' a status, with a code, or "closed"
}

// Read reads all exchanges of a folder.
func Read(t testing.TB, dir string) []Exchange {
	t.Helper()
	files, err := filepath.Glob(dir + "/*.txt")
	check.Must(t, err)
	var all []Exchange
	names := make(map[string]bool)
	for _, file := range files {
		text, err := os.ReadFile(file)
		check.Must(t, err)
		list, err := parseExchanges(string(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, e := range list {
			if names[e.Name] {
				t.Fatalf("%s: a second exchange %s", file, e.Name)
			}
			names[e.Name] = true
		}
		all = append(all, list...)
	}
	return all
}

func parseExchanges(text string) ([]Exchange, error) {
	var list []Exchange
	for _, part := range strings.Split("\n"+text, "\n== ")[1:] {
		e, err := parseExchange(part)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name, err)
		}
		list = append(list, e)
	}
	return list, nil
}

func parseExchange(text string) (e Exchange, err error) {
	e.Name, text, _ = strings.Cut(text, "\n")
	var why, nothing bool
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		mark, rest, _ := strings.Cut(line, " ")
		if mark == ">" || mark == "|" {
			if e.ALPN != "h2" || mark == "|" {
				if rest, err = Unescape(rest); err != nil {
					return e, err
				}
			} else {
				rest += "\n"
			}
		}
		switch mark {
		case "":
		case "#":
			why = true
		case "via":
			e.Via, e.ALPN, _ = strings.Cut(rest, " ")
		case ">":
			if n := len(e.Steps); n > 0 && e.Steps[n-1].Kind == '>' {
				e.Steps[n-1].Text += rest
			} else {
				e.Steps = append(e.Steps, Step{'>', rest})
			}
		case "<", "!":
			e.Steps = append(e.Steps, Step{mark[0], rest})
		case "|":
			e.Upstream += rest
		case "nothing":
			nothing = true
		default:
			return e, fmt.Errorf("the line %q begins with no known mark", line)
		}
	}
	if !why || e.Via == "" || nothing == (e.Upstream != "") {
		return e, fmt.Errorf(
			"it needs a reason (#), a way (via), and what the upstream receives (|) or that it receives nothing")
	}
	return e, nil
}

var repeated = regexp.MustCompile(`\{(\d+) \* ([^}]+)\}`)

// Unescape reads Go's escapes, and {n * text} for text repeated n times.
func Unescape(s string) (string, error) {
	s = repeated.ReplaceAllStringFunc(s, func(m string) string {
		parts := repeated.FindStringSubmatch(m)
		n, _ := strconv.Atoi(parts[1])
		return strings.Repeat(parts[2], n)
	})
	raw, err := strconv.Unquote(`"` + strings.ReplaceAll(s, `"`, `\"`) + `"`)
	if err != nil {
		return "", fmt.Errorf("%.80q has an escape that is none", s)
	}
	return raw, nil
}
