package clients

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/e2e/kit"
)

func TestBasicSecret(t *testing.T) {
	t.Parallel()
	const user, password = "user-0123456789", "password-0123456789"
	r := kit.NewRig(t, kit.Plain, func(r *kit.Rig) (http.Handler, string) {
		kit.Write(t, r.In("secrets/basic"), base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
		rules, _, _ := strings.Cut(kit.ClientRules, "  - name: reads\n")
		for _, half := range []string{"auto", "password", "user", "both"} {
			rules += fmt.Sprintf(`  - name: %s
    match: {url: "https://PLAIN/%[1]s/{asked}", methods: [GET]}
    credential: {prefix: "Basic ", file: secrets/basic, basicSecret: %[1]s}
`, half)
		}
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			u, p, _ := req.BasicAuth()
			fmt.Fprintln(w, map[string]string{"user": u, "password": p}[filepath.Base(req.URL.Path)])
		}), rules + kit.Upstream
	})
	stdout, stderr, err := r.StartRun(t, nil, nil, `for half in auto password user both; do for asked in user password; do
echo "$half: $(curl -s "https://$0/$half/$asked")"; done; done`, r.Plain())
	want := "auto: " + user + "\nauto: \npassword: " + user + "\npassword: \nuser: \nuser: " + password +
		"\nboth: \nboth: \n"
	if err != nil || stdout != want {
		t.Errorf("got %s, want %s: %v %s", stdout, want, err, stderr)
	}
}
