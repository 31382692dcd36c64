package runs

import (
	_ "embed"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// connects is an agent without any configuration that connects to each line of its argument, kind, host and port, and
// prints what it gets.
//
//go:embed testdata/connects.py
var connects string

// TestTransparentRun has an agent make connections of all kinds. What cannot pass leaves a record with its reason.
func TestTransparentRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rows := []struct{ connect, host, code string }{
		{"tls denied.test 443", "denied.test:443", "egress_denied"},
		{"tls 192.0.2.7 8443", "192.0.2.7:8443", "egress_denied"},
		{"tls 2001:db8::7 443", "[2001:db8::7]:443", "egress_denied"},
		{"cleartext denied-too.test 80", "denied-too.test:80", "egress_denied"},
		{"cleartext 169.254.169.254 80", "169.254.169.254:80", "egress_denied"},
		{"cleartext secure.test 443", "", "not_http"},
		{"ssh git.test 22", "", "not_http"},
		{"half smtp.test 25", "", ""}, // a client that sends nothing leaves no record, as a spare connection of a browser
		{"spare spare.test 443", "", ""},
		{"nameless nameless.test 443", "", "target_mismatch"},
		{"misnamed named.test 443", "misnamed.test:443", "target_mismatch"},
		{"old old.test 80", "", "target_mismatch"},
	}
	var lines []string
	for _, row := range rows {
		lines = append(lines, row.connect)
	}
	stdout, stderr, err := r.StartRun(t, nil, nil, `/usr/bin/python3 -c "$0" "$1"`, connects, strings.Join(lines, "\n"))
	check.Must(t, err)
	if !strings.HasPrefix(stderr, "mediator: refused calls: 10, most often:\nmediator: 1 × egress_denied: ") ||
		strings.Count(stdout, "b'HTTP/1.1 403'") < 5 {
		t.Errorf("%s%s", stdout, stderr)
	}
	var want, got []string
	for _, row := range rows {
		if row.code != "" {
			want = append(want, row.code+" "+row.host)
		}
	}
	for _, p := range r.Records(t, "limit=1000") {
		host := p.Host
		if strings.HasPrefix(host, "198.1") {
			host = "" // the address that the run's resolver gave
		}
		got = append(got, p.Code+" "+host)
	}
	slices.Sort(want)
	slices.Sort(got)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("records:\n%s\nwant:\n%s\nthe agent got:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"), stdout)
	}
}

// TestConfiguredNowhere reads with programs of which none is configured, and without the run's variables.
func TestConfiguredNowhere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	url := "https://" + r.Plain() + "/repos/acme/site"
	for _, program := range []string{"curl -sS", "wget -qO-",
		`/usr/bin/python3 -c "import urllib.request as u, sys; print(u.urlopen(sys.argv[1]).read())"`} {
		stdout, stderr, err := r.StartRun(t, nil, nil, `exec env -i PATH="$PATH" `+program+` "$0"`, url)
		if err != nil || !strings.Contains(stdout, "acme") {
			t.Errorf("%s: %v\n%s%s", program, err, stdout, stderr)
		}
	}
	kit.Need(t, "wget")
}
