package credential_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/proxy/credential"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/full"
)

const clientSecret = "the-secret-of-the-client"

// TestOpenIDProvider gets tokens from npm's oidc-provider, which replaces a refresh token at each use, and refuses all
// of them if an old one is used again.
func TestOpenIDProvider(t *testing.T) {
	full.Only(t, "node and oidc-provider")
	cmd := exec.Command("node", "--no-warnings", "oidc.mjs")
	cmd.Dir = "../../test/e2e/testdata/node"
	out, err := cmd.StdoutPipe()
	check.Must(t, err)
	check.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	check.Must(t, err)
	said := strings.Fields(line) // listening PORT TOKEN
	provider := "http://127.0.0.1:" + said[1]
	o := credential.OAuthOptions{TokenEndpoint: credential.TokenEndpoint{URL: provider + "/token", ClientID: "mediator",
		SecretFile: secretFile(t, clientSecret)}, HTTP: http.DefaultTransport, Now: time.Now}
	current := func() string {
		t.Helper()
		v, err := credential.OAuth(o).Current(t.Context()) // each source is one more process
		check.Must(t, err)
		if !isActive(t, provider, v.Secret) || time.Until(v.End) > 10*time.Minute {
			t.Errorf("the provider does not know its token, or it ends at %s", v.End)
		}
		return v.Secret
	}
	current()
	o.RefreshFile, o.Kept = secretFile(t, said[2]), filepath.Join(t.TempDir(), "kept")
	if first, second := current(), current(); first == second {
		t.Error("the second process got no token of its own")
	}
	o.Kept = filepath.Join(t.TempDir(), "lost")
	_, err = credential.OAuth(o).Current(t.Context())
	check.WantCode(t, err, "custody_unavailable", "refused with 400 invalid_grant")
	o.RefreshFile, o.SecretFile = "", secretFile(t, "another")
	_, err = credential.OAuth(o).Current(t.Context())
	check.WantCode(t, err, "custody_unavailable", "refused with 401 invalid_client")
}

// isActive asks the provider about a token (RFC 7662).
func isActive(t *testing.T, provider, token string) bool {
	t.Helper()
	ask, err := http.NewRequest(http.MethodPost, provider+"/token/introspection",
		strings.NewReader(url.Values{"token": {token}}.Encode()))
	check.Must(t, err)
	ask.SetBasicAuth("mediator", clientSecret)
	ask.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(ask)
	check.Must(t, err)
	defer resp.Body.Close()
	var said struct{ Active bool }
	check.Must(t, json.NewDecoder(resp.Body).Decode(&said))
	return said.Active
}
