package records

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
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/proxy/match"
)

// Node is where a command reaches the node.
type Node struct {
	At string // unix:PATH, https://HOST, or Own
	CA string // as of --ca
}

// Flags adds the flags that name the node.
func (n *Node) Flags(c *cobra.Command) {
	c.Flags().StringVar(&n.At, "node", "unix:/run/mediator/reputation.sock", "the node, unix:PATH or https://HOST")
	cli.FromDir(c, "node", func(dir string) string { return "unix:" + devstack.New(dir).Socket("reputation") })
	cli.CAFlag(c, &n.CA)
}

const (
	nodeTimeout   = 30 * time.Second
	maxNodeAnswer = 4 << 20 // bytes
)

// public reports whether the node is asked at its public address.
func (n Node) public() bool { return strings.HasPrefix(n.At, "https://") }

// Own is where an agent reaches the node through its mediator, by the proxy that the environment names.
const Own = "http://" + match.Own

// Get sends a GET request to the node.
func (n Node) Get(ctx context.Context, path string, answer any) error {
	return n.Call(ctx, http.MethodGet, path, nil, answer)
}

// Call sends a request to the node with, unless ask is nil, a JSON body.
func (n Node) Call(ctx context.Context, method, path string, ask, answer any) error {
	if !n.public() && n.At != Own {
		return admin.Call(ctx, n.At, method, path, ask, answer)
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
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(n.At, "/")+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	if ask != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if proxy, err := http.ProxyFromEnvironment(req); n.At == Own && (err != nil || proxy == nil) {
		return errors.New(`the environment names no proxy, by which an agent reaches its mediator: eval "$(mediator env)" first, or mediator run`)
	}
	transport, err := cli.Transport(n.CA)
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
			return fmt.Errorf("%s does not answer as a node: %w", n.At, err)
		}
		return err
	}
	return json.NewDecoder(io.LimitReader(resp.Body, maxNodeAnswer)).Decode(answer)
}

// Ask makes c a command that asks the node for what is at a path, which may depend on the arguments, and prints the answer.
func Ask[Answer any](c *cobra.Command, path func(args []string) string, print func(c *cobra.Command, asJSON bool, answer Answer) error) *cobra.Command {
	var node Node
	var asJSON bool
	c.RunE = func(c *cobra.Command, args []string) error {
		var answer Answer
		if err := node.Get(c.Context(), path(args), &answer); err != nil {
			return err
		}
		return print(c, asJSON, answer)
	}
	node.Flags(c)
	cli.JSONFlag(c, &asJSON)
	return c
}
