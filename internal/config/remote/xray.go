package remote

import (
	"crypto/x509"

	"github.com/actionproof/mediator/internal/config/fields"
	"github.com/actionproof/mediator/proxy/forward"
)

// XRayServer is one server of the xray bridge.
type XRayServer struct {
	// URL is the server's https URL; http is allowed at a loopback address.
	URL string `yaml:"url" need:"yes" is:"server"`
	// CA is a PEM file of authorities for the server's certificate, besides the system's.
	CA string `yaml:"ca" is:"public"`
	// TokenFile holds the server's token.
	TokenFile string `yaml:"tokenFile" is:"secret" least:"8"`
	// Header carries the bare token. Default: Authorization, with the prefix Bearer.
	Header string `yaml:"header"`

	// RootCAs are the authorities of CA and of the system; nil means the system's alone.
	RootCAs *x509.CertPool `yaml:"-"`
	// Token is the content of TokenFile.
	Token string `yaml:"-" of:"tokenFile"`
}

func (s *XRayServer) Check(key string, f *fields.Findings) {
	f.URL(key+".url", s.URL, fields.URLs{HTTP: fields.Loopback,
		What: "an https URL such as https://xray.example.com/mcp: plain text could be changed on the way"})
	s.RootCAs = f.Authorities(key+".ca", s.CA)
	if s.Header != "" {
		if err := forward.CheckCredentialHeader(s.Header); err != nil {
			f.Add(key+".header", "%v", err)
		}
		if s.TokenFile == "" {
			f.Add(key+".header", "has no meaning without a tokenFile")
		}
	}
}
