// Package kube makes the few calls to a Kubernetes API server that the registrar needs.
//
//	client.go   requests
//	watch.go    lists that stay up to date
//	objects.go  the fields that are read, and what is written
package kube

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/files"
)

// Where a pod finds its service account.
const (
	account   = "/var/run/secrets/kubernetes.io/serviceaccount/"
	TokenFile = account + "token"
	CAFile    = account + "ca.crt"
)

// Options say how to reach an API server. The zero value is for a process in a pod.
type Options struct {
	Server    string // https://host:port
	CAFile    string
	TokenFile string // read again for each request
}

// Client sends requests to an API server. It is safe for concurrent use.
type Client struct {
	base  string
	token string // path
	http  *http.Client
}

// maxAnswer bounds an answer, and one event of a watch, in bytes. An object of 1.5 MiB, which is as large as etcd
// takes, can have six times as many as JSON.
const maxAnswer = 16 << 20

const requestTimeout = 30 * time.Second

// inPod returns the address of the API server that Kubernetes gives to each pod, or nothing outside a pod.
func inPod() string {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return ""
	}
	return "https://" + net.JoinHostPort(host, port)
}

// OrInPod returns the options with those of a pod in the place of empty ones.
func (o Options) OrInPod() Options {
	return Options{cmp.Or(o.Server, inPod()), cmp.Or(o.CAFile, CAFile), cmp.Or(o.TokenFile, TokenFile)}
}

// New makes a client. It sends nothing yet.
func New(o Options) (*Client, error) {
	o = o.OrInPod()
	if o.Server == "" {
		return nil, fmt.Errorf("this is not a pod, so kubernetes.server must name the API server")
	}
	ca, err := files.Read(o.CAFile)
	if err != nil {
		return nil, fmt.Errorf("the API server's CA: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s has no certificate", o.CAFile)
	}
	t := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
		IdleConnTimeout: 90 * time.Second, ResponseHeaderTimeout: requestTimeout,
	}
	return &Client{base: strings.TrimSuffix(o.Server, "/"), token: o.TokenFile, http: &http.Client{Transport: t}}, nil
}

// StatusError is a refusal by the API server.
type StatusError struct {
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	about   string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("the API server answered %d to %s: %.300s", e.Code, e.about, cmp.Or(e.Message, e.Reason))
}

// send returns the body of a successful answer, which the caller closes.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, kind string,
	body []byte) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.URL.RawQuery = query.Encode()
	token, err := files.ReadSecret(c.token, 1)
	if err != nil {
		return nil, fmt.Errorf("the service account's token: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "mediator-registrar")
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 == 2 {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	status := &StatusError{about: method + " " + path}
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	_ = json.Unmarshal(raw, status) // an answer by something in between is no JSON
	status.Code = resp.StatusCode
	return nil, status
}

// do sends a request and decodes its answer into to, unless that is nil.
func (c *Client) do(ctx context.Context, method, path string, query url.Values, kind string, body, to any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return err
		}
	}
	answer, err := c.send(ctx, method, path, query, kind, raw)
	if err != nil {
		return err
	}
	defer answer.Close()
	got, err := files.ReadAll(answer, "the answer to "+method+" "+path, maxAnswer)
	if err != nil || to == nil {
		return err
	}
	return json.Unmarshal(got, to)
}

const (
	jsonType  = "application/json"
	mergeType = "application/merge-patch+json"
	applyType = "application/apply-patch+yaml" // JSON is YAML
)

// manager is the owner of fields that are applied.
const manager = "mediator-registrar"

// apply makes or changes an object so that it has these fields (server-side apply).
func (c *Client) apply(ctx context.Context, path string, object any) error {
	return c.do(ctx, http.MethodPatch, path, url.Values{"fieldManager": {manager}, "force": {"true"}}, applyType,
		object, nil)
}
