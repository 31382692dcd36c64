package fields

import (
	"crypto/x509"
	"net/netip"
	"net/url"

	"github.com/actionproof/mediator/internal/files"
)

// URLs are the URLs that a key takes: https ones with a host, without a user and a fragment.
type URLs struct {
	// What describes them, with an example, after "must be".
	What string
	// HTTP allows plain HTTP too, at loopback addresses or anywhere.
	HTTP Plain
	// Base is for URLs that others begin with: they have no query.
	Base bool
}

// Plain says where plain HTTP is allowed.
type Plain int

const (
	Nowhere Plain = iota
	Loopback
	Anywhere
)

// URL parses the URL of a server, or returns nil. No finding repeats the text, which may hold a password.
func (f *Findings) URL(key, text string, of URLs) *url.URL {
	u, err := url.Parse(text)
	switch {
	case text == "": // a finding already if it is required
	case err == nil && u.User != nil:
		f.Add(key, "must not hold a user or a password: put them into a file")
	case err != nil || u.Host == "" || u.Fragment != "" || of.Base && u.RawQuery != "" ||
		u.Scheme != "https" && (u.Scheme != "http" || !of.HTTP.at(u.Hostname())):
		f.Add(key, "must be %s", of.What)
	default:
		return u
	}
	return nil
}

func (p Plain) at(host string) bool {
	a, err := netip.ParseAddr(host)
	return p == Anywhere || p == Loopback && err == nil && a.IsLoopback()
}

// Authorities reads a PEM file of authorities, and returns them with the system's; nil without a path, for the system's
// alone.
func (f *Findings) Authorities(key, path string) *x509.CertPool {
	if path == "" {
		return nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	raw, err := files.Read(path)
	switch {
	case err != nil:
		f.Add(key, "%v", err)
	case !pool.AppendCertsFromPEM(raw):
		f.Add(key, "%s holds no PEM certificate", path)
	}
	return pool
}
