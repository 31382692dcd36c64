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

// NodeFlag adds the flag that names the node.
func NodeFlag(c *cobra.Command, at *string) {
	c.Flags().StringVar(at, "node", "unix:/run/mediator/reputation.sock", "the node, unix:PATH or https://HOST")
	cli.FromDir(c, "node", func(dir string) string { return "unix:" + devstack.New(dir).Socket("reputation") })
}

const (
	nodeTimeout   = 30 * time.Second
	maxNodeAnswer = 4 << 20 // bytes
)

// public reports whether a node is asked at its public address.
func public(at string) bool { return strings.HasPrefix(at, "https://") }

// Own is where an agent reaches the node through its mediator, by the proxy that the environment names.
const Own = "http://" + match.Own

// AskNode sends a GET request to a node.
func AskNode(ctx context.Context, at, path string, answer any) error {
	return CallNode(ctx, at, http.MethodGet, path, nil, answer)
}

// CallNode sends a request to a node with, unless ask is nil, a JSON body.
func CallNode(ctx context.Context, at, method, path string, ask, answer any) error {
	if !public(at) && at != Own {
		return admin.Call(ctx, at, method, path, ask, answer)
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
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(at, "/")+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	if ask != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if proxy, err := http.ProxyFromEnvironment(req); at == Own && (err != nil || proxy == nil) {
		return errors.New(`the environment names no proxy, by which an agent reaches its mediator: eval "$(mediator env)" first, or mediator run`)
	}
	client := &http.Client{CheckRedirect: wire.Stay}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		err := problem.Read(resp)
		if said := (*problem.Error)(nil); !errors.As(err, &said) {
			return fmt.Errorf("%s does not answer as a node: %w", at, err)
		}
		return err
	}
	return json.NewDecoder(io.LimitReader(resp.Body, maxNodeAnswer)).Decode(answer)
}

// Ask makes c a command that asks the node for what is at a path, which may depend on the arguments, and prints the answer.
func Ask[Answer any](c *cobra.Command, path func(args []string) string, print func(c *cobra.Command, asJSON bool, answer Answer) error) *cobra.Command {
	var at string
	var asJSON bool
	c.RunE = func(c *cobra.Command, args []string) error {
		var answer Answer
		if err := AskNode(c.Context(), at, path(args), &answer); err != nil {
			return err
		}
		return print(c, asJSON, answer)
	}
	NodeFlag(c, &at)
	cli.JSONFlag(c, &asJSON)
	return c
}
