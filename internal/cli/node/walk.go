package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/reputation/verification"
	"github.com/actionproof/mediator/reputation/verification/client"
)

// Verification returns the command that walks through a verification by hand.
func Verification() *cobra.Command {
	var file string
	var step walkStep
	w := walk{Verification: new(client.Verification)}
	c := &cobra.Command{
		Use: "verification [URL]", Short: "Walk through a verification by hand, one step at a time",
		Example: `  mediator verification https://node.example.com/mcp
  mediator verification --tool search_plugins --query governance
  mediator verification --reasoning "The registry has no plugin for ..., so I go on from canary-..."
  mediator verification --name my-plugin --description "What it is for"`,
		Long: `Takes one step of a verification (docs/verification.md), and prints the next one. --file keeps the
verification between two steps.

With URL, a node's MCP endpoint, it asks for a challenge and prints the task. The environment's proxy is used if there
is one.
--tool calls a tool in the session, and prints the result.
--reasoning submits the turn about the last call. It must name the canary in the result of the turn before. The turn
  about a follow-up must also name the canary in its own result.
--name hands in all turns and registers the plugin: it signs the nonce with the agent's key, and prints how each check
  went, and the signed result after a pass. The name and the description are public.`,
		Args: func(c *cobra.Command, args []string) error {
			begins, turn, ends := len(args) == 1, step.tool != "" || c.Flags().Changed("reasoning"), step.plugin.Name != ""
			if len(args) > 1 || begins && (turn || ends) || turn == ends && !begins {
				return cli.Usagef("%s takes the URL of a node, --tool or --reasoning or both, or --name", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				w.URL = args[0]
				return w.start(c, file)
			}
			n, err := w.resume(c.Context(), file)
			if err != nil {
				return err
			}
			defer n.Close()
			if step.plugin.Name != "" {
				return w.register(c, n, step)
			}
			return w.turn(c, n, file, step)
		},
	}
	f := c.Flags()
	f.StringVar(&file, "file", "verification.json", "where the verification is kept between two steps")
	f.StringVar(&w.Key, "key", "agent.key",
		"the agent's Ed25519 key (PKCS #8, PEM); the first step makes it if it is missing")
	cli.CAFlag(c, &w.CA)
	f.StringVar(&step.tool, "tool", "", "a tool to call")
	f.StringVar(&step.query, "query", "", "what the tool search_plugins searches for")
	f.StringVar(&step.reasoning, "reasoning", "", "why, in at least 30 characters")
	f.StringVar(&step.plugin.Name, "name", "", "name of the plugin to register")
	f.StringVar(&step.plugin.Description, "description", "", "what the plugin is for")
	cli.JSONFlag(c)
	return c
}

type walkStep struct {
	tool, query, reasoning string
	plugin                 verification.Metadata
}

// walk is the state of a verification between two commands.
type walk struct {
	URL string `json:"url"`
	Key string `json:"key"` // path of the private key
	CA  string `json:"ca,omitempty"`
	*client.Verification
}

const maxWalk = 4 << 20

func (w *walk) resume(ctx context.Context, path string) (*client.Node, error) {
	raw, err := files.ReadUpTo(path, maxWalk)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; begin with mediator verification URL", err)
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, w); err != nil {
		return nil, fmt.Errorf("%s is not a verification that mediator verification has begun: %w", path, err)
	}
	return w.dial(ctx)
}

func (w *walk) dial(ctx context.Context) (*client.Node, error) {
	u, err := url.Parse(w.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, cli.Usagef("%q is no URL of a node, such as https://node.example.com/mcp", w.URL)
	}
	transport, err := cli.Transport(w.CA)
	if err != nil {
		return nil, err
	}
	return client.Dial(ctx, w.URL, transport)
}

func (w *walk) keep(path string) error {
	return files.ReplaceWith(path, 0o600, func(to io.Writer) error { return cli.WriteJSON(to, w) })
}

func (w *walk) start(c *cobra.Command, file string) error {
	n, err := w.dial(c.Context())
	if err != nil {
		return err
	}
	defer n.Close()
	key, err := files.TakeKey(w.Key)
	if err != nil {
		return err
	}
	if w.Verification, err = n.Start(c.Context(), key); err != nil {
		return err
	}
	if err := w.keep(file); err != nil {
		return err
	}
	return cli.PrintText(c, w.Verification, func(out io.Writer) error {
		t := w.Task
		fmt.Fprintf(out, "session   %s\ntask      %s\n", w.SessionID, t.Prompt)
		fmt.Fprintf(out, "requires  %s, %d turns and a follow-up, %.1f s between the first turn and the last\n",
			strings.Join(t.RequiredTools, " and "), t.MinTurns, float64(t.MinDurationMS)/1000)
		return w.next(out)
	})
}

func (w *walk) turn(c *cobra.Command, n *client.Node, file string, step walkStep) error {
	if step.tool != "" {
		if err := n.Call(c.Context(), w.Verification, step.tool, step.query); err != nil {
			return err
		}
	}
	called := w.Call
	var err error
	if c.Flags().Changed("reasoning") {
		err = n.Submit(c.Context(), w.Verification, step.reasoning)
	}
	if err := errors.Join(err, w.keep(file)); err != nil { // the call counts although the turn was refused
		return err
	}
	return cli.PrintText(c, w.Verification, func(out io.Writer) error {
		if step.tool != "" {
			fmt.Fprintf(out, "result    %s\n", called.Output)
		}
		return w.next(out)
	})
}

func (w *walk) register(c *cobra.Command, n *client.Node, step walkStep) error {
	if !w.Answered { // the node would reject it, and that would end the verification
		fmt.Fprintln(c.ErrOrStderr(), "the verification is kept: it is too early to register")
		if err := w.next(c.ErrOrStderr()); err != nil {
			return err
		}
		return cli.ErrRefused
	}
	key, err := files.ReadKey(w.Key)
	if err != nil {
		return err
	}
	r, err := n.Register(c.Context(), w.Verification, key, step.plugin)
	if err != nil {
		return err
	}
	if err := cli.PrintText(c, r, func(out io.Writer) error { return drawRegistered(out, r) }); err != nil {
		return err
	}
	if !r.Success {
		return cli.ErrRefused
	}
	return nil
}

func (w *walk) next(out io.Writer) error {
	canary, taken, step := "", len(w.Turns), ""
	if taken > 0 {
		canary = client.Call{Output: w.Turns[taken-1].Output}.Canary()
	}
	switch {
	case w.Call != nil && w.FollowUp != "":
		step = fmt.Sprintf("--reasoning \"...\", which names %s, %s and %s", w.Call.Tool, canary, w.Call.Canary())
	case w.Call != nil && canary != "":
		step = "--reasoning \"...\", which names " + canary
	case w.Call != nil:
		step = "--reasoning \"...\""
	case w.Answered:
		fmt.Fprintf(out, "taken     %d turns, and the follow-up is answered\n", taken)
		step = "--name NAME"
	case w.FollowUp != "":
		fmt.Fprintf(out, "taken     %d turns\nfollow-up %s\n", taken, w.FollowUp)
		tool, query := client.Asked(w.FollowUp)
		step = "--tool " + cmp.Or(tool, "TOOL")
		if query != "" {
			step += " --query " + query
		}
	default:
		fmt.Fprintf(out, "taken     %d turns\n", taken)
		step = "--tool " + w.Task.RequiredTools[taken%len(w.Task.RequiredTools)]
	}
	_, err := fmt.Fprintf(out, "next      mediator verification %s\n", step)
	return err
}

func drawRegistered(out io.Writer, r *client.Registered) error {
	verdict := "passed"
	if !r.Success {
		verdict = "rejected: " + strings.Join(r.Violations, ", ")
	}
	fmt.Fprintf(out, "%s\nscore     %d of %d\n", verdict, r.Score, r.MaxScore)
	for _, c := range r.Checks {
		fmt.Fprintf(out, "  %-17s %3d of %-3d %s\n", c.Name, c.Points, c.Most, c.Basis)
	}
	for _, g := range r.Gates {
		fmt.Fprintf(out, "  %-17s %s\n", g.Name, g.Status)
	}
	if !r.Success {
		if r.RetryAfter > 0 {
			fmt.Fprintf(out, "wait      %v\n", time.Duration(r.RetryAfter)*time.Second)
		}
		return nil
	}
	_, err := fmt.Fprintf(out, "did       %s\nresult    %s\n", r.DID, r.Verification)
	return err
}
