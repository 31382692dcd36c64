package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/proxy/upstream"
)

// UpstreamProxy is a proxy above the mediator. It gets a CONNECT for each connection, also for plain HTTP.
type UpstreamProxy struct {
	// URL is http://host:port or https://host:port.
	URL string `yaml:"url" need:"yes"`
	// CA is as in `upstreams`.
	CA string `yaml:"ca" is:"path"`
	// CredentialFile holds user:password, and is reread for each connection.
	CredentialFile string `yaml:"credentialFile" is:"path"`
	// Auth is basic or digest, which keeps the password secret.
	Auth string `yaml:"auth" one:"basic digest"`
	// NoProxy lists hosts that are reached directly: example.org (with subdomains), .example.org (only these), an IP
	// address, each perhaps with a port, a network, or *.
	NoProxy []string `yaml:"noProxy"`
	// Resolve says who resolves host names: mediator or proxy.
	Resolve string `yaml:"resolve" one:"mediator proxy"`
}

func (c *Sidecar) checkProxy(f *findings) {
	c.checkVia(f)
	p := c.UpstreamProxy
	if p == nil {
		return
	}
	out := &upstream.Proxy{Digest: p.Auth == "digest", Resolves: p.Resolve == "proxy"}
	secure, err := p.locate(out)
	if err != nil && p.URL != "" {
		f.Add("upstreamProxy.url", "%v", err)
	}
	switch {
	case secure:
		out.TLS = &tls.Config{ServerName: out.Host, MinVersion: tls.VersionTLS12, Time: time.Now}
		if p.CA != "" {
			out.TLS.RootCAs = readCA("upstreamProxy.ca", p.CA, f)
		}
	case p.CA != "" && err == nil:
		f.Add("upstreamProxy.ca", "has no meaning with an http URL")
	}
	switch {
	case p.CredentialFile != "":
		out.Login = func() (string, error) { return readLogin(p.CredentialFile) }
		if _, err := out.Login(); err != nil && !f.noSecrets {
			f.Add("upstreamProxy.credentialFile", "%v", err)
		}
	case out.Digest:
		f.Add("upstreamProxy.auth", "needs credentialFile")
	}
	if out.Except, err = upstream.ParseExceptions(p.NoProxy); err != nil {
		f.Add("upstreamProxy.noProxy", "%v", err)
	}
	c.Proxy = out
}

func (p *UpstreamProxy) locate(out *upstream.Proxy) (secure bool, err error) {
	u, err := url.Parse(p.URL)
	switch {
	case err == nil && u.User != nil:
		return false, errors.New("must not hold credentials: put them into credentialFile")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "":
	default:
		out.Host, out.Port, err = upstream.ParseAuthority(u.Host)
	}
	if err != nil || out.Port == 0 {
		return false, errors.New("must be http://host:port or https://host:port, such as http://proxy.example.com:3128")
	}
	return u.Scheme == "https", nil
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

// checkVia checks the ways that rules demand.
func (c *Sidecar) checkVia(f *findings) {
	check := func(key string, via upstream.Via) {
		switch {
		case via != "" && via != upstream.ViaDirect && via != upstream.ViaProxy:
			f.Add(key, "%.40q is none of direct, proxy", via)
		case via != "" && c.UpstreamProxy == nil:
			f.Add(key, "needs upstreamProxy")
		}
	}
	for i, a := range c.Actions {
		check(fmt.Sprintf("actions[%d].via", i), a.Via)
	}
	for i, e := range c.Egress {
		check(fmt.Sprintf("egress[%d].via", i), e.Via)
	}
}
