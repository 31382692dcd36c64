package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/config/remote"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/api"
	"github.com/actionproof/mediator/reputation/verification"
	"github.com/actionproof/mediator/reputation/verification/tools"
	"github.com/actionproof/mediator/reputation/verification/xray"
)

const (
	verificationFile = "verification.db"
	pruneEvery       = 5 * time.Minute
)

type verifier struct {
	hosts   []string
	store   *verification.Store
	service *verification.Service
	log     *zap.Logger
}

// openVerifier opens the store of verifications beside that of receipts.
func openVerifier(ctx context.Context, c *config.Reputation, sign verification.Signer,
	log *zap.Logger) (*verifier, error) {
	o := c.Verification
	v := &verifier{hosts: o.Hosts, log: log}
	options := verification.Options{Mode: verification.Mode(o.Mode), Tasks: o.TaskList, Gates: bridge(o.XRay, log).Ask}
	for _, s := range o.Servers {
		options.Servers = append(options.Servers, verification.Server{Name: s.Name, Role: s.Role, URL: s.URL})
	}
	var err error
	v.store, err = verification.Open(ctx, filepath.Join(c.State, verificationFile), c.Store.Postgres.ConnString(),
		time.Now)
	if err != nil {
		return nil, fmt.Errorf("the store of verifications of %s: %w", c.Path, err)
	}
	if v.service, err = verification.New(v.store, sign, options); err != nil {
		_ = v.store.Close() // the first error is the one to tell
		return nil, err
	}
	return v, nil
}

func bridge(x config.XRay, log *zap.Logger) *xray.Bridge {
	server := func(s *remote.XRayServer) xray.Server {
		if s == nil {
			return xray.Server{}
		}
		return xray.Server{URL: s.URL, Token: s.Token, Header: s.Header, RootCAs: s.RootCAs}
	}
	return xray.New(xray.Options{Orchestrate: server(x.Orchestrate), Govern: server(x.Govern), Enforce: server(x.Enforce),
		Log: log})
}

func (p *process) verifiedOf(ctx context.Context, agent accrual.Agent) (*accrual.Verified, error) {
	if p.verifier == nil {
		return nil, nil
	}
	token, r, err := p.verifier.service.Passed(ctx, agent.String())
	if errors.Is(err, verification.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &accrual.Verified{Result: evidence.HashToken(token), At: r.IssuedAt, Expires: r.Expires, Mode: r.Mode,
		Degraded: r.Degraded}, nil
}

func (p *process) registered(ctx context.Context, agent accrual.Agent) (since time.Time, ok bool, err error) {
	return p.verifier.store.Registered(ctx, agent.String())
}

func (v *verifier) prune(ctx context.Context) {
	for range every.Tick(ctx, pruneEvery) {
		if err := v.service.Prune(ctx); err != nil && ctx.Err() == nil {
			v.log.Error("verifications that are over are not removed", zap.Error(err))
		}
	}
}

type callerOf func(r *http.Request, body []byte) (verification.Caller, error)

func (v *verifier) handler(version string, caller callerOf) (http.Handler, error) {
	return tools.NewHandler(v.service, tools.Options{Hosts: v.hosts, Caller: caller, Version: version, Log: v.log})
}

func named(s *reputation.Service) callerOf {
	return func(r *http.Request, body []byte) (verification.Caller, error) {
		by, err := api.Caller(s, r, body)
		if err != nil {
			return verification.Caller{}, err
		}
		agent := accrual.Agent{Owner: by.Owner, Subject: by.Agent} // owners choose the names of their agents
		return verification.Caller{Subject: agent.String(), Session: by.Session, ModelCalls: by.ModelCalls}, nil
	}
}

// namedOrFrom names a caller without a sidecar by its network address.
func namedOrFrom(s *reputation.Service) callerOf {
	return func(r *http.Request, body []byte) (verification.Caller, error) {
		if len(r.Header.Values(interaction.CallerHeader)) > 0 {
			return named(s)(r, body)
		}
		from, ok := api.Network(r.RemoteAddr)
		if !ok {
			return verification.Caller{},
				refusal.New("caller_invalid", "the request has no header %s, and comes from no network address",
					interaction.CallerHeader)
		}
		return verification.Caller{Subject: from.String()}, nil
	}
}
