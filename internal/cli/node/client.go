package node

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/wire"
)

type address struct {
	at string // an internal endpoint, or the node's public https://HOST
	ca string // as --ca gives it
}

func (n *address) flags(c *cobra.Command) {
	c.Flags().StringVar(&n.at, "node", "unix:/run/mediator/reputation.sock", "the node, "+cli.Endpoint+", or https://HOST")
	cli.DefaultEndpoint(c, "node", "reputation", func(of *config.Context) string { return of.Reputation })
	cli.CAFlag(c, &n.ca)
}

const nodeTimeout = 30 * time.Second

func (n address) public() bool {
	return strings.HasPrefix(n.at, "https://") && !strings.Contains(n.at, ",")
}

func (n address) get(ctx context.Context, path string, answer any) error {
	return n.call(ctx, http.MethodGet, path, nil, answer)
}

// hand hands the token in a file over to the node, as this member of a request, and prints the answer.
func (n address) hand(c *cobra.Command, path, member, file string) error {
	token, err := files.Read(file)
	if err != nil {
		return err
	}
	var answer json.RawMessage
	ask := map[string]string{member: strings.TrimSpace(string(token))}
	if err := n.call(c.Context(), http.MethodPost, path, ask, &answer); err != nil {
		return err
	}
	return cli.WriteJSON(c.OutOrStdout(), answer)
}

// call sends ask as JSON, or no body if it is nil.
func (n address) call(ctx context.Context, method, path string, ask, answer any) error {
	if !n.public() {
		return admin.Call(ctx, n.at, method, path, ask, answer)
	}
	var body []byte
	if ask != nil {
		var err error
		if body, err = json.Marshal(ask); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(n.at, "/")+path, bytes.NewReader(body))
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
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: wire.Stay, Timeout: nodeTimeout}
	raw, err := wire.Peer{HTTP: client, Name: "the node at " + n.at, Unavailable: "node_unavailable"}.Do(req)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, answer)
}
