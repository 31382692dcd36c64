package clients

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestBasicSecret cuts an answer that repeats the secret half of a Basic credential.
func TestBasicSecret(t *testing.T) {
	t.Parallel()
	const user, password = "user-0123456789", "password-0123456789"
	r := kit.NewRig(t, kit.Plain, func(r *kit.Rig) (http.Handler, string) {
		file := r.In("secrets/basic")
		check.Must(t,
			errors.Join(os.MkdirAll(filepath.Dir(file), 0o700),
				os.WriteFile(file, []byte(base64.StdEncoding.EncodeToString([]byte(user+":"+password))), 0o600)))
		before, after, _ := strings.Cut(kit.ClientRules, "egress:\n")
		rules := before + "egress:\n"
		for _, half := range []string{"auto", "password", "user", "both"} {
			rules += fmt.Sprintf(
				"  - name: %s\n    match: {url: \"https://PLAIN/%[1]s/{asked}\", methods: [GET]}\n    credential: {prefix: "+
					"\"Basic \", file: secrets/basic, basicSecret: %[1]s}\n", half)
		}
		_, upstreams, _ := strings.Cut(after, "upstreams:")
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			u, p, _ := req.BasicAuth()
			fmt.Fprintln(w, map[string]string{"user": u, "password": p}[filepath.Base(req.URL.Path)])
		}), rules + "upstreams:" + upstreams
	})
	stdout, stderr, err := r.StartRun(t, nil, nil, `for half in auto password user both; do for asked in user password; do
echo "$half: $(curl -s "https://$0/$half/$asked")"; done; done`, r.Plain())
	want := "auto: " + user + "\nauto: \npassword: " + user + "\npassword: \nuser: \nuser: " + password +
		"\nboth: \nboth: \n"
	if err != nil || stdout != want {
		t.Errorf("got %s, want %s: %v %s", stdout, want, err, stderr)
	}
}
