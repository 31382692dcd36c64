package launch

import (
	"slices"
	"strings"
	"testing"
)

func TestEnvironment(t *testing.T) {
	for _, kv := range []string{"PATH=/bin", "LC_ALL=C", "AWS_SECRET_ACCESS_KEY=secret",
		"SSH_AUTH_SOCK=/run/agent.sock", "HOME=/root", "USER=root", "http_proxy=http://before", "NO_PROXY=*"} {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
	env := environment([]string{"HOME=/run/home", "TMPDIR=/tmp"},
		[]string{"HOME=/named", "EMPTY=", "HTTPS_PROXY=http://elsewhere", "all_proxy=x", "SSL_CERT_FILE=/other"},
		"http://proxy", "/ca.pem")
	for _, want := range []string{"PATH=/bin", "LC_ALL=C", "HOME=/named", "TMPDIR=/tmp", "USER=agent", "LOGNAME=agent",
		"EMPTY=", "http_proxy=http://proxy", "HTTPS_PROXY=http://proxy", "SSL_CERT_FILE=/ca.pem"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is not in %q", want, env)
		}
	}
	names := make(map[string]bool)
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if names[name] {
			t.Errorf("%s is there twice", name)
		}
		names[name] = true
	}
	for _, not := range []string{"AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "NO_PROXY", "all_proxy"} {
		if names[not] {
			t.Errorf("%s is in %q", not, env)
		}
	}
}
