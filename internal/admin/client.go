package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/look"
)

// Get sends a GET request to the process at an endpoint (see [ParseEndpoint]), and decodes the answer, of at
// most [wire.MaxAnswer] bytes, into answer unless that is nil.
func Get(ctx context.Context, at, path string, answer any) error {
	return Call(ctx, at, http.MethodGet, path, nil, answer)
}

// Call is Get for any method, with a JSON body unless ask is nil. The error of a refused request has the refusal's
// code.
func Call(ctx context.Context, at, method, path string, ask, answer any) error {
	return call(ctx, at, method, path, ask, nil, answer)
}

// OpenSession asks for a session. Every connection to a non-nil listener will belong to the session.
func OpenSession(ctx context.Context, at string, ask SessionRequest, listener *os.File, answer *Session) error {
	return call(ctx, at, http.MethodPost, "/v1/sessions", ask, listener, answer)
}

func call(ctx context.Context, at, method, path string, ask any, with *os.File, answer any) error {
	resp, done, err := send(ctx, at, method, path, ask, with)
	if err != nil {
		return err
	}
	defer done()
	if answer == nil {
		return nil
	}
	return json.NewDecoder(io.LimitReader(resp.Body, wire.MaxAnswer)).Decode(answer)
}

// send sends a request, with a descriptor unless that is nil. After a success the caller calls done.
func send(ctx context.Context, at, method, path string, ask any, with *os.File) (resp *http.Response, done func(),
	err error) {
	e, id, err := ParseEndpoint(at)
	if err != nil {
		return nil, nil, err
	}
	if with != nil && e.Unix == "" {
		return nil, nil, fmt.Errorf("%s: a session with a listener of its own needs the sidecar's unix socket", e)
	}
	client, base := endpoint.ClientSending(e, id, with)
	defer func() {
		if err != nil {
			client.CloseIdleConnections()
		}
	}()
	var raw []byte
	if ask != nil {
		if raw, err = json.Marshal(ask); err != nil {
			return nil, nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, bytes.NewReader(raw))
	if err != nil {
		return nil, nil, err
	}
	resp, err = client.Do(req)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("no answer at %s, which does not exist (start the process or see its log, or name "+
			"another endpoint with a flag, --dir, MEDIATOR_ADMIN or a context): %w", e, err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("no answer at %s (is the process running, and does it admit you?): %w", e, err)
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		err := problem.Read(resp)
		if said := (*problem.Error)(nil); !errors.As(err, &said) {
			return nil, nil, fmt.Errorf("the server at %s does not know %s %s: %w", e, method, path, err)
		}
		return nil, nil, err
	}
	return resp, func() {
		resp.Body.Close()
		client.CloseIdleConnections()
	}, nil
}

// Peer is another process of the same deployment.
type Peer struct {
	Name string
	HTTP *http.Client // keeps its connections: each new one would cost both ends a TLS handshake
	Base string       // of its URLs
	// Sees lists the purposes, and the names without one, of its observations that count. It has no say in other
	// processes, which could then not be observed at all.
	Sees []string
}

const peerTimeout = 3 * time.Second

// Observations returns the peer's observations of its deployment. See [daemon.Observer.Observe].
func (p Peer) Observations(ctx context.Context, maxAge time.Duration) (observations []look.Observation, err error) {
	err = p.ask(ctx, "/v1/looks?maxAge="+maxAge.String(), &observations)
	return slices.DeleteFunc(observations, func(l look.Observation) bool {
		return !slices.Contains(p.Sees, cmp.Or(l.Purpose, l.Name))
	}), err
}

func (p Peer) ask(ctx context.Context, path string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Base+path, nil)
	if err != nil {
		return err
	}
	raw, err := wire.Peer{HTTP: p.HTTP, Name: "mediator " + p.Name, Unavailable: "process_unavailable"}.Do(req)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, out)
}
