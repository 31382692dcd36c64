package node

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
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

// address is where a command reaches the node.
type address struct {
	at string // an internal endpoint, https://HOST, or own
	ca string // as --ca gives it
}

func (n *address) flags(c *cobra.Command) {
	c.Flags().StringVar(&n.at, "node", "unix:/run/mediator/reputation.sock", "the node, "+cli.Endpoint+", or https://HOST")
	cli.FromDir(c, "node", func(dir string) []string { return []string{"unix:" + devstack.New(dir).Socket("reputation")} })
	cli.CAFlag(c, &n.ca)
}

const (
	nodeTimeout   = 30 * time.Second
	maxNodeAnswer = 4 << 20 // bytes
)

func (n address) public() bool { return strings.HasPrefix(n.at, "https://") }

// own is where an agent reaches the node through its mediator, by the proxy that the environment names.
const own = "http://" + match.Own

// list asks the node for a whole list, part by part. at returns where an item stands in the order of the list.
func list[Item any, At cmp.Ordered](ctx context.Context, n address, path string, query url.Values, name string,
	at func(Item) At) ([]Item, error) {
	all, after := []Item{}, *new(At)
	for {
		var part map[string][]Item
		query.Set("after", fmt.Sprint(after))
		if err := n.get(ctx, path+"?"+query.Encode(), &part); err != nil {
			return nil, err
		}
		items := part[name]
		if len(items) == 0 {
			return all, nil
		}
		last := at(items[len(items)-1])
		if last <= after {
			return nil, fmt.Errorf("%s does not answer as a node: its list does not go on after %.300v", n.at, after)
		}
		all, after = append(all, items...), last
	}
}

func (n address) get(ctx context.Context, path string, answer any) error {
	return n.call(ctx, http.MethodGet, path, nil, answer)
}

// call sends ask as JSON, or no body if it is nil.
func (n address) call(ctx context.Context, method, path string, ask, answer any) error {
	if !n.public() && n.at != own {
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
	if proxy, err := http.ProxyFromEnvironment(req); n.at == own && (err != nil || proxy == nil) {
		return errors.New("the environment names no proxy, by which an agent reaches its mediator: " +
			`eval "$(mediator env)" first, or use mediator run`)
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
