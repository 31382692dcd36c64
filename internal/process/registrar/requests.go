package registrar

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/time/rate"

	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/registrar"
	"github.com/actionproof/mediator/internal/wire"
)

// registerTimeout bounds a registration: many can wait for the same signatures. trustWait bounds a request that waits
// for another trust.
const registerTimeout, trustWait = 30 * time.Second, 20 * time.Second

// public answers the processes that the rules name.
func (p *process) public() http.Handler {
	mux := http.NewServeMux()
	if p.cluster != nil && p.cluster.audience != "" {
		mux.HandleFunc("POST /v1/certificates", p.certificates)
	}
	mux.HandleFunc("POST /v1/nonces", p.from(func(w http.ResponseWriter, r *http.Request, c registrar.Caller) {
		if err := p.mayRegister(c.ID); err != nil {
			problem.Write(w, err)
			return
		}
		wire.Write(w, struct {
			Nonce string `json:"nonce"`
		}{p.Nonce()}, nil)
	}))
	mux.HandleFunc("POST /v1/registrations", p.from(func(w http.ResponseWriter, r *http.Request, c registrar.Caller) {
		var q registrar.Request
		if err := read(w, r, wire.MaxRequest, &q); err != nil {
			problem.Write(w, err)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), registerTimeout)
		defer cancel()
		answer, err := p.Register(ctx, c, q)
		if err != nil {
			p.refuse(c, err)
		} else {
			p.made.WithLabelValues("keys").Inc()
		}
		wire.Write(w, answer, err)
	}))
	mux.HandleFunc("GET /v1/trust", p.from(func(w http.ResponseWriter, r *http.Request, c registrar.Caller) {
		t, err := p.nextTrust(r.Context(), c, r.URL.Query().Get("unlike"))
		if err != nil {
			problem.Write(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = io.WriteString(w, t.JSON()) // which all callers share: none can make copies by reading slowly
	}))
	mux.HandleFunc("GET /v1/history/{segment}",
		p.from(func(w http.ResponseWriter, r *http.Request, _ registrar.Caller) {
			p.history(w, r)
		}))
	return mux
}

// from answers requests of callers that have a valid certificate, and that a rule allows.
func (p *process) from(answer func(http.ResponseWriter, *http.Request, registrar.Caller)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := p.caller(r)
		if err == nil {
			err = p.begin(c.ID)
		}
		if err != nil {
			problem.Write(w, err)
			return
		}
		defer p.end(c.ID)
		answer(w, r, c)
	}
}

// read reads a request that its sender must send soon: strangers can send requests too.
func read(w http.ResponseWriter, r *http.Request, limit int64, to any) error {
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(readTimeout))
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	err := wire.Read(w, r, to)
	if err != nil {
		w.Header().Set("Connection", "close") // net/http would wait for the rest
		return err
	}
	_ = conn.SetReadDeadline(time.Time{})
	return nil
}

// begin refuses a caller with more than maxOpen requests that are being answered: it may not read the answers.
func (p *process) begin(id string) error {
	p.askingMu.Lock()
	defer p.askingMu.Unlock()
	if p.open[id] >= maxOpen {
		return refusal.New("overloaded", "%s has %d requests that are being answered", id, maxOpen)
	}
	p.open[id]++
	return nil
}

func (p *process) end(id string) {
	p.askingMu.Lock()
	defer p.askingMu.Unlock()
	if p.open[id]--; p.open[id] == 0 {
		delete(p.open, id)
	}
}

// caller returns who sent a request, and refuses a caller that no rule allows. Its certificate must be valid now: a
// connection can outlive it.
func (p *process) caller(r *http.Request) (registrar.Caller, error) {
	id, err := p.own.Peer(r.TLS)
	if err != nil {
		return registrar.Caller{}, refusal.New("caller_unknown", "the caller's certificate is no longer valid: %w", err)
	}
	c := registrar.Caller{ID: string(id)}
	if p.cluster != nil {
		c.Pods = p.cluster.podsOf(id)
	}
	rules, err := p.Rules()
	if err == nil {
		_, err = rules.For(c)
	}
	if err != nil {
		p.refuse(c, err)
	}
	return c, err
}

// A caller may register once a second, after registrationBurst at once: replicas have the same id. maxAsking bounds
// the callers whose rates are known, maxOpen the requests of one that are answered at once, and maxCSR a request for
// a TLS certificate, in bytes. readTimeout bounds the time for a request's body.
const (
	registrationBurst, maxAsking, maxOpen, maxCSR = 32, 4096, 64, 16 << 10

	readTimeout = 10 * time.Second
)

// mayRegister refuses a caller that would use up the nonces, and the time, of the others.
func (p *process) mayRegister(id string) error {
	p.askingMu.Lock()
	defer p.askingMu.Unlock()
	r, known := p.asking.Get(id)
	if !known {
		r = rate.NewLimiter(1, registrationBurst)
		p.asking.Put(id, r)
	}
	if !r.Allow() {
		return refusal.New("overloaded", "%s registers more than once a second", id)
	}
	return nil
}

// nextTrust waits until the caller's trust is not the one that it has. It returns an empty one if that takes long.
func (p *process) nextTrust(ctx context.Context, c registrar.Caller, has string) (registrar.Trust, error) {
	ctx, cancel := endpoint.UntilEnding(ctx)
	defer cancel()
	wait := time.NewTimer(trustWait)
	defer wait.Stop()
	for {
		t, over, err := p.TrustOf(c)
		if err != nil || t.State != "" && t.State != has {
			return t, err
		}
		select {
		case <-over:
		case <-wait.C:
			return registrar.Trust{}, nil
		case <-ctx.Done(): // not an empty one, after which the caller would ask again at once
			return registrar.Trust{}, refusal.New("process_unavailable", "this registrar ends")
		}
	}
}

// operators answers operators, and auditors who want the history.
func (p *process) operators() http.Handler {
	mux := p.Mux()
	mux.HandleFunc("GET /v1/bundle",
		func(w http.ResponseWriter, r *http.Request) { p.file(w, r, registrar.BundleFile) })
	mux.HandleFunc("GET /v1/history/{segment}", p.history)
	return mux
}

func (p *process) history(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(r.PathValue("segment"))
	p.file(w, r, filepath.Base(archive.SegmentFile(registrar.BundleFile, max(n, 1))))
}

func (p *process) file(w http.ResponseWriter, r *http.Request, name string) {
	raw, err := p.store.Read(r.Context(), name)
	if errors.Is(err, fs.ErrNotExist) {
		err = refusal.New("not_found", "there is no %s", name)
	}
	if err != nil {
		problem.Write(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(raw)
}
