package vault

import (
	"crypto/tls"
	"time"
)

// Health is what a process has last seen of Vault, for its metrics.
type Health struct {
	CertificateUntil time.Time // the end of Vault's certificate, as the last new connection saw it; zero before one did
	Logins           []Login
}

// Login is one role's standing with Vault.
type Login struct {
	For       string    // such as key runtime-key
	Reachable bool      // Vault did what it was asked the last time
	Until     time.Time // when the token ends unless it is renewed; zero if it does not end, or there is none
}

// Health returns what was last seen, and asks Vault for nothing.
func (s *Server) Health() Health {
	var h Health
	if until := s.certificate.Load(); until != nil {
		h.CertificateUntil = *until
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.sessions {
		l := Login{For: e.name, Reachable: e.reached.Load()}
		if until := e.until.Load(); until != nil {
			l.Until = *until
		}
		h.Logins = append(h.Logins, l)
	}
	return h
}

// seeCertificate keeps the end of Vault's certificate.
func (s *Server) seeCertificate(c tls.ConnectionState) error {
	s.certificate.Store(&c.PeerCertificates[0].NotAfter)
	return nil
}

// lease keeps for how long a token lasts from now on, in seconds.
func (e *session) lease(seconds int) {
	if seconds <= 0 {
		e.until.Store(nil)
		return
	}
	until := e.server.o.Now().Add(time.Duration(seconds) * time.Second)
	e.until.Store(&until)
}
