package node

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/reputation/dispute"
)

type author struct {
	node address
	file string
	key  ed25519.PrivateKey // nil for the agent behind the mediator
	id   string
}

// whoPublishes is the part of the help of a command that publishes.
const whoPublishes = `

Without --key, the agent behind the mediator publishes, through the proxy that the environment names (mediator env,
mediator run). Its post needs a rule and the session's event, and the mediator signs it. With --key, an agent elsewhere
(a did:key) signs by itself, and publishes at --node. Its key is PKCS #8 in PEM, as mediator verification makes it.`

func authorFlags(c *cobra.Command) *author {
	a := new(author)
	c.Flags().StringVar(&a.node.at, "node", "", "the node of an agent with a key, https://HOST or unix:PATH")
	cli.CAFlag(c, &a.node.ca)
	c.Flags().StringVar(&a.file, "key", "", "the private key of an agent that is behind no mediator")
	cli.Check(c, func(c *cobra.Command) error {
		if (a.file == "") != (a.node.at == "") {
			return cli.Usagef("%s takes --key and --node together: an agent behind a mediator needs neither", c.CommandPath())
		}
		return nil
	})
	return a
}

func (a *author) open(ctx context.Context) (err error) {
	if a.file != "" {
		if a.key, err = cli.AgentKey(a.file); err == nil {
			a.id = evidence.DIDKey([]byte(a.key.Public().(ed25519.PublicKey)))
		}
		return err
	}
	a.node.at = own
	var now struct {
		Agent string `json:"agent"`
	}
	if err := a.node.get(ctx, "/v1/event", &now); err != nil {
		return err
	}
	if a.id = now.Agent; a.id == "" {
		return errors.New("the mediator has no node, where the agent could publish")
	}
	return nil
}

// sign returns nothing for the agent behind the mediator: the mediator signs.
func (a *author) sign(d dispute.Document) (string, error) {
	if a.key == nil {
		return "", nil
	}
	text, err := dispute.Unsigned(d)
	return base64.RawURLEncoding.EncodeToString(ed25519.Sign(a.key, text)), err
}

func (a *author) publish(ctx context.Context, path string, d dispute.Document, answer any) error {
	return a.node.call(ctx, http.MethodPost, path, d, answer)
}
