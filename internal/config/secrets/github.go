package secrets

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/actionproof/mediator/internal/config/fields"
	"github.com/actionproof/mediator/internal/pattern"
	"github.com/actionproof/mediator/proxy/credential"
)

// GitHubApp gets access tokens for one installation of a GitHub App.
type GitHubApp struct {
	// App is the App's client ID.
	App string `yaml:"app" need:"yes"`
	// Installation is the installation's number, from its URL.
	Installation uint64 `yaml:"installation" need:"yes"`
	// KeyFile is the App's private key (PEM). Set this or `vaultKey`.
	KeyFile string `yaml:"keyFile" is:"secret" choice:"yes"`
	// VaultKey names the key in custody's Transit engine.
	VaultKey string `yaml:"vaultKey" choice:"yes"`
	// Repositories are the tokens' only repositories, without their owner.
	Repositories []string `yaml:"repositories" need:"yes"`
	// Permissions are the tokens' only permissions, such as {issues: write}. Default: the installation's.
	Permissions map[string]string `yaml:"permissions"`
	// APIURL is the REST API's base URL. Default https://api.github.com. Enterprise: https://HOST/api/v3.
	APIURL string `yaml:"apiURL" is:"server"`
}

var apiURLs = fields.URLs{Base: true, What: "an https URL without a query, such as https://github.example.com/api/v3"}

var (
	transitKey = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
	repository = pattern.New(`^[A-Za-z0-9._-]{1,100}$`)
	permission = pattern.New(`^[a-z_]{1,60}$`)
)

func (g *GitHubApp) Check(key string, f *fields.Findings) {
	f.URL(key+".apiURL", g.APIURL, apiURLs)
	g.APIURL = cmp.Or(g.APIURL, "https://api.github.com")
	switch {
	case g.KeyFile != "":
		text := f.ReadSecret(key+".keyFile", g.KeyFile, 1)
		if err := credential.CheckRSAKey(text); text != "" && !f.NoSecrets && err != nil {
			f.Add(key+".keyFile", "%s: %v", g.KeyFile, err)
		}
	case g.VaultKey != "" && !transitKey.MatchString(g.VaultKey):
		f.Add(key+".vaultKey", "%.100q is not the name of a key in Vault", g.VaultKey)
	}
	for i, name := range g.Repositories {
		if !repository.MatchString(name) {
			f.Add(fmt.Sprintf("%s.repositories[%d]", key, i), "%.100q is not a repository's name without its owner",
				name)
		}
	}
	for name, level := range g.Permissions {
		switch {
		case !permission.MatchString(name):
			f.Add(key+".permissions."+name, "no permission of GitHub has this name")
		case !slices.Contains([]string{"read", "write", "admin"}, level):
			f.Add(key+".permissions."+name, "%.20q is none of read, write, admin", level)
		}
	}
}

// Options returns what the source of the tokens needs. sign signs with the key in Vault, if there is one.
func (g *GitHubApp) Options(via http.RoundTripper, sign credential.Signer) credential.GitHubAppOptions {
	return credential.GitHubAppOptions{App: g.App, Installation: g.Installation, KeyFile: g.KeyFile, Sign: sign,
		Repositories: g.Repositories, Permissions: g.Permissions, APIURL: g.APIURL, HTTP: via, Now: time.Now}
}
