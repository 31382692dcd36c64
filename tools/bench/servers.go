package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/elazarl/goproxy"
)

// startCollector serves a collector that takes everything, until this process ends. It returns the collector's URL.
func startCollector() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	take := func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(take)}
	go func() { _ = s.Serve(l) }()
	return "http://" + l.Addr().String(), nil
}

// serveUpstream is the API: it accepts posts, and answers reads with 1 KiB, 100 MiB or a stream of events that say when
// they were sent.
func serveUpstream(ctx context.Context, address, dir string) error {
	page := []byte(strings.Repeat("x", 1024))
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		if n, err := io.Copy(io.Discard, r.Body); err != nil || n == 0 {
			http.Error(w, "no body", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"id":1}`)
	})
	mux.HandleFunc("GET /read", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) })
	mux.HandleFunc("GET /download", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(100<<20))
		block := make([]byte, 1<<20)
		for range 100 {
			_, _ = w.Write(block)
		}
	})
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for ok := true; ok; ok = sleep(r.Context(), 10*time.Millisecond) {
			fmt.Fprintf(w, "data: %d\n\n", time.Now().UnixNano())
			_ = http.NewResponseController(w).Flush()
		}
	})
	return serve(ctx, &http.Server{Addr: address, Handler: mux}, func(s *http.Server) error {
		return s.ListenAndServeTLS(filepath.Join(dir, "api.pem"), filepath.Join(dir, "api.key"))
	})
}

func serve(ctx context.Context, s *http.Server, listen func(*http.Server) error) error {
	s.ReadHeaderTimeout, s.ErrorLog = time.Minute, log.New(io.Discard, "", 0)
	context.AfterFunc(ctx, func() { _ = s.Close() })
	return listen(s)
}

// serveGoproxy is the yardstick: goproxy's own interception, with a tuned transport and the upstream's certificate.
func serveGoproxy(ctx context.Context, address, dir string) error {
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "api.pem"), filepath.Join(dir, "api.key"))
	if err != nil {
		return err
	}
	p := goproxy.NewProxyHttpServer()
	p.AllowHTTP2 = true
	p.Tr = &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: pool(filepath.Join(dir, "api-ca.pem")), MinVersion: tls.VersionTLS12},
		MaxIdleConnsPerHost: 256, IdleConnTimeout: time.Minute,
	}
	intercept := &goproxy.ConnectAction{Action: goproxy.ConnectMitm,
		TLSConfig: func(string, *goproxy.ProxyCtx) (*tls.Config, error) {
			return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, nil
		}}
	p.OnRequest().HandleConnect(
		goproxy.FuncHttpsHandler(func(authority string, _ *goproxy.ProxyCtx) (*goproxy.ConnectAction, string) {
			return intercept, authority
		}))
	return serve(ctx, &http.Server{Addr: address, Handler: p}, (*http.Server).ListenAndServe)
}
