package gate

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/wire"
)

// source reads a file or asks a server for it.
type source func(ctx context.Context) ([]byte, error)

// newSource returns the source at a path or an https URL. limit bounds its bytes.
func newSource(where string, client *http.Client, limit int64) (source, error) {
	if !strings.Contains(where, "://") {
		if where == "" {
			return nil, errors.New("a file is not named")
		}
		return func(context.Context) ([]byte, error) { return files.ReadUpTo(where, limit) }, nil
	}
	u, err := url.Parse(where)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return nil, errors.New("what is not a file must be an https URL, without a user and a fragment")
	}
	if client == nil {
		return nil, fmt.Errorf("%s: the key of the server is not pinned", where)
	}
	return (&remote{url: where, client: client, limit: limit}).read, nil
}

// remote reads from a server. It keeps the last answer and its ETag.
type remote struct {
	url    string
	client *http.Client
	limit  int64
	tag    string
	kept   []byte
}

func (r *remote) read(ctx context.Context) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return nil, err
	}
	if r.tag != "" {
		req.Header.Set("If-None-Match", r.tag)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, err // already names method and URL
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotModified && r.tag != "":
		return r.kept, nil
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s answered %d", r.url, resp.StatusCode)
	}
	raw, err := files.ReadAll(resp.Body, r.url, r.limit)
	if err != nil {
		return nil, err
	}
	r.kept, r.tag = raw, resp.Header.Get("ETag")
	return raw, nil
}

const maxHeaders = 64 << 10

// pinned returns a client for servers with a pinned key, or nil without pins.
func pinned(pins []string) (*http.Client, error) {
	if len(pins) == 0 {
		return nil, nil
	}
	var hashes [][]byte
	for _, pin := range pins {
		text, ok := strings.CutPrefix(pin, "sha256//")
		hash, err := base64.StdEncoding.Strict().DecodeString(text)
		if !ok || err != nil || len(hash) != sha256.Size {
			return nil, fmt.Errorf("the pin %.80q is not sha256// and the base64 SHA-256 of a public key", pin)
		}
		hashes = append(hashes, hash)
	}
	verify := func(s tls.ConnectionState) error {
		got := sha256.Sum256(s.PeerCertificates[0].RawSubjectPublicKeyInfo)
		for _, hash := range hashes {
			if subtle.ConstantTimeCompare(got[:], hash) == 1 {
				return nil
			}
		}
		return fmt.Errorf("the server's key has the pin sha256//%s, which is not one of those that are configured",
			base64.StdEncoding.EncodeToString(got[:]))
	}
	return &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			// The key itself is pinned, so certificate authorities and names do not matter.
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true,
				VerifyConnection: verify},
			MaxResponseHeaderBytes: maxHeaders, MaxIdleConns: 2, IdleConnTimeout: time.Minute,
		},
		CheckRedirect: wire.Stay,
	}, nil
}
