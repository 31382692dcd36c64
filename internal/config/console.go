package config

import (
	"cmp"
	"crypto/x509"
	"slices"

	"github.com/actionproof/mediator/internal/config/fields"
)

// Console lets members of an OpenID provider's groups use a console (OpenID Connect Core 1.0, authorization code flow).
type Console struct {
	File `yaml:"-"`

	// TLSCertificate is a PEM file, reread when it changes. Default: plain HTTP, only on loopback.
	TLSCertificate string `yaml:"tlsCertificate" is:"public"`
	// TLSKey is the PEM file of its key.
	TLSKey string `yaml:"tlsKey" is:"secret"`
	// Issuer is the OpenID provider's URL.
	Issuer string `yaml:"issuer" need:"yes"`
	// IssuerCA is a PEM file of more authorities for its certificate.
	IssuerCA string `yaml:"issuerCA" is:"public"`
	// ClientID is the console's client id there. Its redirect URI is /login/callback below `--url`.
	ClientID string `yaml:"clientId" need:"yes"`
	// SecretFile holds the client's secret. Default: a public client.
	SecretFile string `yaml:"secretFile" is:"secret" least:"1"`
	// Scopes are requested besides openid.
	Scopes []string `yaml:"scopes"`
	// GroupsClaim is the ID token's claim with the user's groups. Default groups.
	GroupsClaim string `yaml:"groupsClaim"`
	// Groups may see everything.
	Groups []string `yaml:"groups" need:"yes"`
	// SummaryGroups may see only pages without calls.
	SummaryGroups []string `yaml:"summaryGroups"`

	// Roots certify the provider; nil for the system's authorities.
	Roots *x509.CertPool `yaml:"-" of:"issuerCA"`
}

func (c *Console) checkAll(f *findings) {
	if (c.TLSCertificate == "") != (c.TLSKey == "") {
		f.Add("tlsCertificate", "goes together with tlsKey")
	}
	f.URL("issuer", c.Issuer, fields.URLs{What: "an https URL without a query", Base: true})
	c.Roots = f.Authorities("issuerCA", c.IssuerCA)
	if slices.Contains(c.SummaryGroups, "") {
		f.Add("summaryGroups", "has an empty item")
	}
	c.GroupsClaim = cmp.Or(c.GroupsClaim, "groups")
}
