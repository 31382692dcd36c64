package secrets

import (
	"net/http"
	"path/filepath"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config/fields"
	"github.com/actionproof/mediator/proxy/credential"
)

// TokenEndpoint is an OAuth 2.0 token endpoint. A private host needs an entry in upstreams.
type TokenEndpoint struct {
	// TokenURL is an https URL.
	TokenURL string `yaml:"tokenURL" need:"yes" is:"server"`
	// ClientID is the mediator's client id there.
	ClientID string `yaml:"clientID" need:"yes"`
	// ClientSecretFile holds the client's secret. Default: the client is public.
	ClientSecretFile string `yaml:"clientSecretFile" is:"secret" least:"1"`
	// ClientAuth sends the client's secret by basic (Authorization) or post (the body).
	ClientAuth string `yaml:"clientAuth" one:"basic post"`
}

// OAuth gets access tokens. RefreshTokenFile or SubjectTokenFile selects the grant; by default the client's own
// credentials do.
type OAuth struct {
	TokenEndpoint `yaml:",inline"`
	// Scopes are the requested scopes.
	Scopes []string `yaml:"scopes"`
	// Audience names the service that takes the token (RFC 8693).
	Audience string `yaml:"audience"`
	// Resource is the API's URL (RFC 8707).
	Resource string `yaml:"resource"`
	// RefreshTokenFile holds the first refresh token; `state` gets its successors. Default: the client credentials grant.
	RefreshTokenFile string `yaml:"refreshTokenFile" is:"secret" least:"1"`
	// SubjectTokenFile holds a token to exchange instead (RFC 8693), reread each time.
	SubjectTokenFile string `yaml:"subjectTokenFile" is:"secret" least:"1"`
	// SubjectTokenType is access_token, id_token or jwt.
	SubjectTokenType string `yaml:"subjectTokenType" one:"access_token id_token jwt"`
	// IdentityProvider exchanges the subject token for an identity assertion (ID-JAG), which `tokenURL` takes. Needs
	// `audience`, the issuer of `tokenURL`.
	IdentityProvider *TokenEndpoint `yaml:"identityProvider"`
}

// Google gets access tokens for a Google service account.
type Google struct {
	// KeyFile is the service account's key, in Google's JSON.
	KeyFile string `yaml:"keyFile" is:"secret" need:"yes"`
	// Scopes are the requested scopes, such as https://www.googleapis.com/auth/drive.file.
	Scopes []string `yaml:"scopes" need:"yes"`
	// TokenURL is the token endpoint. Default https://oauth2.googleapis.com/token.
	TokenURL string `yaml:"tokenURL" is:"server"`
}

var tokenURLs = fields.URLs{What: "an https URL without a fragment, such as https://login.example.com/token"}

func (t *TokenEndpoint) Check(key string, f *fields.Findings) {
	f.URL(key+".tokenURL", t.TokenURL, tokenURLs)
}

func (o *OAuth) Check(key string, f *fields.Findings) {
	o.TokenEndpoint.Check(key, f)
	switch {
	case o.RefreshTokenFile != "" && o.SubjectTokenFile != "":
		f.Add(key+".subjectTokenFile", "has no meaning with refreshTokenFile: set one of them")
	case o.RefreshTokenFile+o.SubjectTokenFile+o.ClientSecretFile == "":
		f.Add(key, "needs clientSecretFile, refreshTokenFile or subjectTokenFile: a client identifier alone proves "+
			"nothing")
	}
	if o.IdentityProvider != nil && (o.SubjectTokenFile == "" || o.Audience == "") {
		f.Add(key+".identityProvider", "needs subjectTokenFile, the token that it exchanges, and audience, for whom")
	}
}

func (g *Google) Check(key string, f *fields.Findings) {
	f.URL(key+".tokenURL", g.TokenURL, tokenURLs)
	if g.TokenURL == "" {
		g.TokenURL = "https://oauth2.googleapis.com/token"
	}
	if g.KeyFile == "" {
		return
	}
	text := f.ReadSecret(key+".keyFile", g.KeyFile, 1)
	if err := credential.CheckGoogleKey(text); text != "" && !f.NoSecrets && err != nil {
		f.Add(key+".keyFile", "%s: %v", g.KeyFile, err)
	}
}

func (t *TokenEndpoint) options() credential.TokenEndpoint {
	return credential.TokenEndpoint{URL: t.TokenURL, ClientID: t.ClientID, SecretFile: t.ClientSecretFile,
		InParams: t.ClientAuth == "post"}
}

// Files returns the paths of the secrets; some may be empty.
func (o *OAuth) Files() []string {
	all := []string{o.ClientSecretFile, o.RefreshTokenFile, o.SubjectTokenFile}
	if o.IdentityProvider != nil {
		all = append(all, o.IdentityProvider.ClientSecretFile)
	}
	return all
}

// Options returns what the source of the tokens needs. Refresh tokens are stored below state.
func (o *OAuth) Options(state string, via http.RoundTripper) credential.OAuthOptions {
	out := credential.OAuthOptions{TokenEndpoint: o.options(), Scopes: o.Scopes, Audience: o.Audience,
		Resource: o.Resource, RefreshFile: o.RefreshTokenFile, SubjectFile: o.SubjectTokenFile,
		SubjectType: o.SubjectTokenType, HTTP: via, Now: time.Now,
		Kept: filepath.Join(state, "refresh-"+evidence.HashBytes([]byte(o.TokenURL + " " + o.ClientID + " " +
			o.RefreshTokenFile))[:16])}
	if o.IdentityProvider != nil {
		identity := o.IdentityProvider.options()
		out.Identity = &identity
	}
	return out
}

// Options returns what the source of the tokens needs.
func (g *Google) Options(via http.RoundTripper) credential.GoogleOptions {
	return credential.GoogleOptions{KeyFile: g.KeyFile, Scopes: g.Scopes, TokenURL: g.TokenURL, HTTP: via,
		Now: time.Now}
}
