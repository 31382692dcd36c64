package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/look"
)

// ErrNoAnswer is the error of a request to an endpoint where no process answers.
var ErrNoAnswer = errors.New("no answer")

// Get sends a GET request to the process at an endpoint (see [daemon.ParseEndpoint]), and decodes the response into
// answer. If answer is nil, Get does not read the response.
func Get(ctx context.Context, at, path string, answer any) error {
	return Call(ctx, at, http.MethodGet, path, nil, answer)
}

// Call sends a request with a method and, unless ask is nil, a JSON body. If the process refuses the request, the error
// has the code of the refusal.
func Call(ctx context.Context, at, method, path string, ask, answer any) error {
	return call(ctx, at, method, path, ask, nil, answer)
}

// OpenSession asks for a session. If listener is not nil, the sidecar gets it with the request: every connection to it
// belongs to the session.
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
	return json.NewDecoder(resp.Body).Decode(answer)
}

// send sends a request, as Call does, with a descriptor unless that is nil, and returns the response. Unless it fails,
// done has to be called.
func send(ctx context.Context, at, method, path string, ask any, with *os.File) (resp *http.Response, done func(),
	err error) {
	e, err := daemon.ParseEndpoint(at)
	if err != nil {
		return nil, nil, err
	}
	if with != nil && e.Unix == "" {
		return nil, nil, fmt.Errorf("%s: a session with a listener of its own needs the sidecar's unix socket", at)
	}
	client, base := daemon.ClientSending(e, with)
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
	if err != nil {
		return nil, nil,
			fmt.Errorf("%w at %s (is the process running, and are you its user or root?): %w", ErrNoAnswer, at, err)
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		err := problem.Read(resp)
		if said := (*problem.Error)(nil); !errors.As(err, &said) {
			return nil, nil, fmt.Errorf("%s is the endpoint of something that does not know %s %s: %w", at, method, path, err)
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
	At   config.Endpoint
	// Purpose selects the peer's observations that count; empty, all do. A process that no post needs has no say about
	// others.
	Purpose string
}

// peerTimeout bounds a request to a peer.
const peerTimeout = 3 * time.Second

// Observations returns what the peer observes of its deployment. See [daemon.Observer.Observe].
func (p Peer) Observations(ctx context.Context, maxAge time.Duration) (observations []look.Observation, err error) {
	err = p.ask(ctx, "/v1/looks?maxAge="+maxAge.String(), &observations)
	if p.Purpose != "" {
		observations = slices.DeleteFunc(observations, func(l look.Observation) bool { return l.Purpose != p.Purpose })
	}
	return observations, err
}

func (p Peer) ask(ctx context.Context, path string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	client, base := daemon.Client(p.At)
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %d", p.Name, resp.StatusCode)
	}
	return json.NewDecoder(io.LimitReader(resp.Body, wire.MaxAnswer)).Decode(out)
}
