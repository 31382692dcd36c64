package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/config/fields"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/translog"
)

func TestTransparencyLog(t *testing.T) {
	of := func(origin string) string {
		k, err := translog.NewKey(origin, make([]byte, 32), nil)
		check.Must(t, err)
		return "log " + k.String() + "\nquorum none\n"
	}
	policy := filepath.Join(t.TempDir(), "policy")
	with := func(settings string) string {
		return write(t, strings.Replace(correctSidecar, "state: state\n",
			"state: state\ntransparencyLog: {"+settings+"}\n", 1))
	}
	const settings = "origin: log.example/a, key: log-key, policy: "
	for name, tt := range map[string]struct{ settings, policy, want string }{
		"an origin with a space": {"origin: log example, key: log-key", "", "cannot have the origin"},
		"the key of another role": {"origin: log.example/a, key: runtime-key", "",
			"runtime-key is also the key of transparencyLog"},
		"another log in the policy": {settings + policy, of("log.example/b"), "is not the log that the policy names"},
		"no policy":                 {settings + policy, "nonsense", "transparencyLog.policy: the log's policy"},
		"witnesses, and no policy": {"origin: log.example/a, key: log-key, requireWitness: true", "",
			"needs a policy with a quorum of witnesses"},
		"witnesses, and no quorum": {settings + policy + ", requireWitness: true", of("log.example/a"),
			"needs a policy with a quorum of witnesses"},
	} {
		t.Run(name, func(t *testing.T) {
			check.Must(t, os.WriteFile(policy, []byte(tt.policy), 0o600))
			_, err := Load[Sidecar](with(tt.settings))
			wantSaid(t, err, tt.want)
		})
	}
	file := with(settings + policy)
	check.Must(t, os.Remove(policy))
	c, err := LoadTransparencyLog(file)
	if check.Must(t, err); c.TransparencyLog.Origin != "log.example/a" {
		t.Errorf("got %+v", c.TransparencyLog)
	}
	_, err = LoadTransparencyLog(write(t, correctSidecar))
	wantSaid(t, err, "the sidecar keeps no log")
	check.Must(t, os.WriteFile(policy, []byte(of("log.example/a")), 0o600))
	before, err := Load[Sidecar](file)
	check.Must(t, err, os.WriteFile(policy, []byte(of("log.example/a")+"# more\n"), 0o600))
	after, err := Load[Sidecar](file)
	check.Must(t, err)
	if got := fields.ChangedBound(*before, *after); !slices.Equal(got, []string{"transparencyLog.policy"}) {
		t.Errorf("another policy changes %q", got)
	}
}

func wantSaid(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want %q", err, text)
	}
}
