package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/elazarl/goproxy"
)

// serveUpstream is the API: it accepts posts and answers reads with 1 KiB.
func serveUpstream(ctx context.Context, address, dir string) error {
	ca, err := tls.LoadX509KeyPair(filepath.Join(dir, "ca.pem"), filepath.Join(dir, "ca.key"))
	if err != nil {
		return err
	}
	cert, err := leaf(ca, host)
	if err != nil {
		return err
	}
	page := []byte(strings.Repeat("x", 1024))
	mux := http.NewServeMux()
	mux.HandleFunc("POST /posts", func(w http.ResponseWriter, r *http.Request) {
		if n, err := io.Copy(io.Discard, r.Body); err != nil || n == 0 {
			http.Error(w, "no body", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"id":1}`)
	})
	mux.HandleFunc("GET /read", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) })
	s := &http.Server{
		Addr: address, Handler: mux, ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{*cert}, MinVersion: tls.VersionTLS12},
		ErrorLog:  log.New(io.Discard, "", 0),
	}
	go func() {
		<-ctx.Done()
		_ = s.Close()
	}()
	if err := s.ListenAndServeTLS("", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// serveGoproxy is the yardstick: goproxy's own interception with a tuned transport and a cache of ECDSA leaf
// certificates. It hashes each body and knows no evidence.
func serveGoproxy(ctx context.Context, address, dir string) error {
	ca, err := tls.LoadX509KeyPair(filepath.Join(dir, "ca.pem"), filepath.Join(dir, "ca.key"))
	if err != nil {
		return err
	}
	if ca.Leaf, err = x509.ParseCertificate(ca.Certificate[0]); err != nil {
		return err
	}
	p := goproxy.NewProxyHttpServer()
	p.Tr = &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: pool(filepath.Join(dir, "ca.pem")), MinVersion: tls.VersionTLS12},
		MaxIdleConnsPerHost: 256, IdleConnTimeout: time.Minute,
	}
	leaves := &leafCache{ca: ca}
	intercept := &goproxy.ConnectAction{Action: goproxy.ConnectMitm,
		TLSConfig: func(authority string, _ *goproxy.ProxyCtx) (*tls.Config, error) {
			name, _, err := net.SplitHostPort(authority)
			if err != nil {
				return nil, err
			}
			cert, err := leaves.get(name)
			return &tls.Config{Certificates: []tls.Certificate{*cert}, MinVersion: tls.VersionTLS12}, err
		}}
	p.OnRequest().HandleConnect(
		goproxy.FuncHttpsHandler(func(authority string, _ *goproxy.ProxyCtx) (*goproxy.ConnectAction, string) {
			return intercept, authority
		}))
	p.OnRequest().DoFunc(func(r *http.Request, _ *goproxy.ProxyCtx) (*http.Request, *http.Response) {
		if r.Body != nil && r.ContentLength > 0 {
			raw, err := io.ReadAll(r.Body)
			if err != nil {
				return r, goproxy.NewResponse(r, goproxy.ContentTypeText, http.StatusBadRequest, err.Error())
			}
			sum := sha256.Sum256(raw)
			r.Header.Set("X-Hash", fmt.Sprintf("%x", sum))
			r.Body = io.NopCloser(strings.NewReader(string(raw)))
		}
		return r, nil
	})
	s := &http.Server{Addr: address, Handler: p, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	go func() {
		<-ctx.Done()
		_ = s.Close()
	}()
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

type leafCache struct {
	ca     tls.Certificate
	leaves sync.Map
}

func (c *leafCache) get(name string) (*tls.Certificate, error) {
	if l, ok := c.leaves.Load(name); ok {
		return l.(*tls.Certificate), nil
	}
	l, err := leaf(c.ca, name)
	if err == nil {
		c.leaves.Store(name, l)
	}
	return l, err
}
