package identity

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

	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/strictjson"
)

const exchangeTimeout = 40 * time.Second // the registrar may have many to sign for

// Exchange makes a key, and asks the registrar at a host:port for its certificate, with a service account token. name
// is in the registrar's certificate; empty is the host. It returns PEM.
func Exchange(ctx context.Context, tokenFile, at, name string, authorities []byte) (certificate, key, all string,
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
	if err := post(ctx, strings.TrimSpace(token), at, name, authorities, map[string][]byte{"csr": csr}, &answer); err !=
		nil {
		return "", "", "", err
	}
	return answer.Certificate, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		answer.Authorities, nil
}

// post sends a request to a registrar that the authorities certify. The caller has no certificate.
func post(ctx context.Context, token, at, name string, authorities []byte, ask, answer any) error {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authorities) {
		return errors.New("the registrar's authorities do not exist yet")
	}
	if name == "" {
		name, _, _ = net.SplitHostPort(at)
	}
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	body, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+at+"/v1/certificates",
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
	raw, err := files.ReadAll(resp.Body, "the certificate", maxFile)
	if err != nil {
		return err
	}
	return strictjson.ParseMembers(raw, answer)
}
