package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/wire"
)

type address struct {
	at string // an internal endpoint, or the node's public https://HOST
	ca string // as --ca gives it
}

func (n *address) flags(c *cobra.Command) {
	c.Flags().StringVar(&n.at, "node", "unix:/run/mediator/reputation.sock", "the node, "+cli.Endpoint+", or https://HOST")
	cli.FromDir(c, "node", func(dir string) []string { return []string{"unix:" + devstack.New(dir).Socket("reputation")} })
	cli.FromContext(c, "node", func(of *config.Context) []string { return of.Named(of.Reputation) })
	cli.CAFlag(c, &n.ca)
}

const (
	nodeTimeout   = 30 * time.Second
	maxNodeAnswer = 4 << 20 // bytes
)

func (n address) public() bool {
	return strings.HasPrefix(n.at, "https://") && !strings.Contains(n.at, ",")
}

func (n address) get(ctx context.Context, path string, answer any) error {
	return n.call(ctx, http.MethodGet, path, nil, answer)
}

// call sends ask as JSON, or no body if it is nil.
func (n address) call(ctx context.Context, method, path string, ask, answer any) error {
	if !n.public() {
		return admin.Call(ctx, n.at, method, path, ask, answer)
	}
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	var raw []byte
	if ask != nil {
		var err error
		if raw, err = json.Marshal(ask); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(n.at, "/")+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	if ask != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	transport, err := cli.Transport(n.ca)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: transport, CheckRedirect: wire.Stay}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		err := problem.Read(resp)
		if said := (*problem.Error)(nil); !errors.As(err, &said) {
			return fmt.Errorf("%s does not answer as a node: %w", n.at, err)
		}
		return err
	}
	return json.NewDecoder(io.LimitReader(resp.Body, maxNodeAnswer)).Decode(answer)
}
