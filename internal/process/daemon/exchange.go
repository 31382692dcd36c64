package daemon

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/identity"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/strictjson"
)

// exchange gets the process's TLS certificate from the registrar for a service account token, and waits for it. The key
// is only in memory. renew gets another one, for another key, when half of its lifetime is over.
func (p *Process) exchange(ctx context.Context, c config.TLS, at config.Peer) (renew func(context.Context), err error) {
	failing := ""
	failed := func(err error) {
		if code := CodeOf(err); ctx.Err() == nil && code != failing {
			p.Log.Error("the registrar gives this process no TLS certificate yet", zap.Error(err), zap.String("code", code))
			failing = code
		}
	}
	authorities, err := files.Read(c.Authorities)
	for err != nil || p.Identity == nil {
		var certificate, key, all string
		if certificate, key, all, err = certified(ctx, c.Token, at, authorities); err == nil {
			p.Identity, err = identity.New(certificate, key, all)
		}
		if err != nil {
			failed(err)
			if authorities, err = files.Read(c.Authorities); err != nil {
				failed(err)
			}
			if !pause(ctx, registrarPause) {
				return nil, ctx.Err()
			}
		}
	}
	return func(ctx context.Context) {
		for pause(ctx, time.Until(p.Identity.Until())/2) {
			certificate, key, all, err := certified(ctx, c.Token, at, p.Identity.Authorities())
			if err == nil {
				err = p.Identity.Renew(certificate, key, all)
			}
			if failing = ""; err != nil {
				failed(err)
			}
		}
	}, nil
}

// pause waits a second at least. It returns false once ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(max(d, registrarPause)):
		return true
	}
}

// certified makes a key, and asks the registrar for its certificate. It returns PEM.
func certified(ctx context.Context, tokenFile string, at config.Peer, authorities []byte) (certificate, key, all string,
	err error) {
	token, err := files.ReadSecret(tokenFile, 1)
	if err != nil {
		return "", "", "", err
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", "", "", err
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, new(x509.CertificateRequest), private)
	if err != nil {
		return "", "", "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", "", err
	}
	var answer struct {
		Certificate string `json:"certificate"`
		Authorities string `json:"authorities"`
	}
	if err := post(ctx, strings.TrimSpace(token), at, authorities, map[string][]byte{"csr": csr}, &answer); err != nil {
		return "", "", "", err
	}
	return answer.Certificate, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		answer.Authorities, nil
}

// post sends a request to a registrar that the authorities certify. The caller has no certificate.
func post(ctx context.Context, token string, at config.Peer, authorities []byte, ask, answer any) error {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authorities) {
		return errors.New("the registrar's authorities are not there yet")
	}
	name := at.Name
	if name == "" {
		name, _, _ = net.SplitHostPort(at.TCP)
	}
	ctx, cancel := context.WithTimeout(ctx, registrarTimeout)
	defer cancel()
	body, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+at.TCP+"/v1/certificates",
		strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: name,
		MinVersion: tls.VersionTLS13}, DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("the registrar: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return problem.Read(resp)
	}
	raw, err := files.ReadAll(resp.Body, "the certificate", maxTrust)
	if err != nil {
		return err
	}
	return strictjson.ParseMembers(raw, answer)
}
