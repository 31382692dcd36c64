package vault

import (
	"crypto/tls"
	"time"
)

// Health is the last known state of Vault, for metrics.
type Health struct {
	CertificateUntil time.Time // of Vault's certificate, at the last new connection; zero before
	Logins           []Login
}

// Login is one role's session with Vault.
type Login struct {
	For       string    // such as key runtime-key
	Reachable bool      // the last request succeeded, and the token may sign, if that is what it is for
	Answered  bool      // Reachable, or Vault has only denied it one credential
	Until     time.Time // end of the token without renewal; zero if it does not end or there is none
}

// Health returns the last known state, without a request.
func (s *Server) Health() Health {
	var h Health
	if until := s.certificate.Load(); until != nil {
		h.CertificateUntil = *until
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.sessions {
		l := Login{For: e.name, Reachable: e.reached.Load() && !e.denied.Load()}
		l.Answered = l.Reachable || e.answered.Load() && !e.denied.Load()
		if until := e.until.Load(); until != nil {
			l.Until = *until
		}
		h.Logins = append(h.Logins, l)
	}
	return h
}

func (s *Server) seeCertificate(c tls.ConnectionState) error {
	s.certificate.Store(&c.PeerCertificates[0].NotAfter)
	return nil
}

func (e *session) lease(seconds int) {
	if seconds <= 0 {
		e.until.Store(nil)
		return
	}
	until := e.server.o.Now().Add(time.Duration(seconds) * time.Second)
	e.until.Store(&until)
}
