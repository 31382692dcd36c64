package remote

import (
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/actionproof/mediator/internal/config/fields"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/proxy/upstream"
)

// UpstreamProxy is a proxy above the mediator. It gets a CONNECT for each connection, also for plain HTTP.
type UpstreamProxy struct {
	// URL is http://host:port or https://host:port.
	URL string `yaml:"url" need:"yes" is:"server"`
	// CA is as in `upstreams`.
	CA string `yaml:"ca" is:"public"`
	// CredentialFile holds user:password, reread for each connection.
	CredentialFile string `yaml:"credentialFile" is:"secret"`
	// Auth is basic or digest, which keeps the password secret.
	Auth string `yaml:"auth" one:"basic digest"`
	// NoProxy lists hosts to reach directly: example.org (with subdomains), .example.org (only subdomains) or an IP
	// address, each optionally with a port; a network; or *.
	NoProxy []string `yaml:"noProxy"`
	// Resolve names the resolver of host names: mediator or proxy.
	Resolve string `yaml:"resolve" one:"mediator proxy"`

	// Proxy is what the keys say.
	Proxy *upstream.Proxy `yaml:"-"`
}

var proxyURLs = fields.URLs{HTTP: fields.Anywhere, Base: true,
	What: "http://host:port or https://host:port, such as http://proxy.example.com:3128"}

func (p *UpstreamProxy) Check(key string, f *fields.Findings) {
	out := &upstream.Proxy{Digest: p.Auth == "digest", Resolves: p.Resolve == "proxy"}
	if u := f.URL(key+".url", p.URL, proxyURLs); u != nil {
		var err error
		if out.Host, out.Port, err = upstream.ParseAuthority(u.Host); err != nil || out.Port == 0 ||
			strings.Trim(u.Path, "/") != "" {
			f.Add(key+".url", "must be %s", proxyURLs.What)
		}
		switch {
		case u.Scheme == "https":
			out.TLS = &tls.Config{ServerName: out.Host, MinVersion: tls.VersionTLS12, Time: time.Now,
				RootCAs: f.Authorities(key+".ca", p.CA)}
		case p.CA != "":
			f.Add(key+".ca", "has no meaning with an http URL")
		}
	}
	switch {
	case p.CredentialFile != "":
		out.Login = func() (string, error) { return readLogin(p.CredentialFile) }
		if _, err := out.Login(); err != nil && !f.NoSecrets {
			f.Add(key+".credentialFile", "%v", err)
		}
	case out.Digest:
		f.Add(key+".auth", "needs credentialFile")
	}
	var err error
	if out.Except, err = upstream.ParseExceptions(p.NoProxy); err != nil {
		f.Add(key+".noProxy", "%v", err)
	}
	p.Proxy = out
}

func readLogin(path string) (string, error) {
	login, err := files.ReadSecret(path, 1)
	if err != nil {
		return "", err
	}
	if user, _, ok := strings.Cut(login, ":"); !ok || user == "" || !httpguts.ValidHeaderFieldValue(login) {
		return "", fmt.Errorf("%s does not hold user:password on one line", path)
	}
	return login, nil
}
