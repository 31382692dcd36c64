package verifications

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/reputation/verification"
	"github.com/actionproof/mediator/reputation/verification/client"
)

// Verification returns the commands about verifications.
func Verification() *cobra.Command {
	return cli.Group("verification", "Verifications of agents", start(), turn(), register(), show(), list())
}

// walk is what is kept of a verification between two commands.
type walk struct {
	URL string `json:"url"`
	Key string `json:"key"` // path of the private key
	CA  string `json:"ca,omitempty"`
	*client.Verification
}

// maxWalk bounds the file of a walk: the most turns, each as long as it may be, as JSON.
const maxWalk = 4 << 20

// fileFlag adds --file, where a walk is kept.
func fileFlag(c *cobra.Command, path *string) {
	c.Flags().StringVar(path, "file", "verification.json", "where the verification is kept between two commands")
}

// open reads a walk, and connects to the node that it is with.
func open(ctx context.Context, path string) (*walk, *client.Node, error) {
	raw, err := files.ReadUpTo(path, maxWalk)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("%w; begin with mediator verification start", err)
	}
	if err != nil {
		return nil, nil, err
	}
	w := walk{Verification: new(client.Verification)}
	if err := json.Unmarshal(raw, &w); err != nil {
		return nil, nil, fmt.Errorf("%s is no verification that mediator verification start has begun: %w", path, err)
	}
	n, err := w.dial(ctx)
	return &w, n, err
}

// dial connects to the node of the walk.
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

// keep writes the walk for the next command.
func (w *walk) keep(path string) error {
	raw, err := json.MarshalIndent(w, "", "  ")
	if err != nil {
		return err
	}
	return files.Replace(path, append(raw, '\n'), 0o600)
}

func start() *cobra.Command {
	w := walk{}
	var file string
	var asJSON bool
	c := &cobra.Command{
		Use: "start URL", Short: "Ask a node for a challenge", Args: cli.ExactArgs(1, "the URL of a node's MCP endpoint, such as https://node.example.com/mcp"),
		Example: `  mediator verification start https://node.example.com/mcp`,
		Long: `Begins a verification by hand, as docs/verification.md describes it, and prints the task. Each command after it takes one step, and prints
what the next one is. The file that --file names keeps the verification between them. --key names the agent's Ed25519 key (PKCS #8, PEM); if the
file is not there, a key is made. Where the environment names a proxy, the node is reached through it.`,
		RunE: func(c *cobra.Command, args []string) error {
			w.URL = args[0]
			n, err := w.dial(c.Context())
			if err != nil {
				return err
			}
			defer n.Close()
			key, err := cli.TakeAgentKey(w.Key)
			if err != nil {
				return err
			}
			if w.Verification, err = n.Start(c.Context(), key); err != nil {
				return err
			}
			if err := w.keep(file); err != nil {
				return err
			}
			return cli.PrintText(c, asJSON, w.Verification, func(out io.Writer) error {
				t := w.Task
				fmt.Fprintf(out, "session   %s\ntask      %s\nrequires  %s, %d turns and a follow-up, %.1f s between the first turn and the last\n",
					w.SessionID, t.Prompt, strings.Join(t.RequiredTools, " and "), t.MinTurns, float64(t.MinDurationMS)/1000)
				return w.next(out)
			})
		},
	}
	fileFlag(c, &file)
	c.Flags().StringVar(&w.Key, "key", "agent.key", "the agent's private key; it is made if it is not there")
	cli.CAFlag(c, &w.CA)
	cli.JSONFlag(c, &asJSON)
	return c
}

func turn() *cobra.Command {
	var file, query, reasoning string
	var asJSON bool
	c := &cobra.Command{
		Use: "turn [TOOL]", Short: "Call a tool for real, or submit the turn about the last call",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 0 && !c.Flags().Changed("reasoning") {
				return cli.Usagef("%s takes a tool to call, or --reasoning for the turn about the last call, or both", c.CommandPath())
			}
			return nil
		},
		Example: `  mediator verification turn search_plugins --query governance
  mediator verification turn --reasoning "The registry has no plugin for ..., so I go on from canary-..."`,
		Long: `With a tool, calls it in the verification's session, and prints the whole result. With --reasoning, submits the turn about the last call: its
arguments, its result, the reasoning, and the hash over these and the turn before. The reasoning has to name the canary in the result of the turn
before, and that of a follow-up also the canary in its own result.`,
		RunE: func(c *cobra.Command, args []string) error {
			w, n, err := open(c.Context(), file)
			if err != nil {
				return err
			}
			defer n.Close()
			if len(args) > 0 {
				if err := n.Call(c.Context(), w.Verification, args[0], query); err != nil {
					return err
				}
			}
			called := w.Call
			if c.Flags().Changed("reasoning") {
				err = n.Submit(c.Context(), w.Verification, reasoning)
			}
			if err := errors.Join(err, w.keep(file)); err != nil { // the call counts although the turn was refused
				return err
			}
			return cli.PrintText(c, asJSON, w.Verification, func(out io.Writer) error {
				if len(args) > 0 {
					fmt.Fprintf(out, "result    %s\n", called.Output)
				}
				return w.next(out)
			})
		},
	}
	fileFlag(c, &file)
	c.Flags().StringVar(&query, "query", "", "what search_plugins searches for")
	c.Flags().StringVar(&reasoning, "reasoning", "", "why, in at least 30 characters")
	cli.JSONFlag(c, &asJSON)
	return c
}

func register() *cobra.Command {
	var file string
	var plugin verification.Metadata
	var asJSON bool
	c := &cobra.Command{
		Use: "register", Short: "Hand in the trace, and register the plugin", Args: cli.NoArgs,
		Example: `  mediator verification register --name my-plugin --description "What it is for"`,
		Long: `Ends the verification: signs the nonce with the agent's key, hands in all turns, and prints the node's judgement of each
check. If all pass, it prints the signed result. Others can read the name and the description.`,
		RunE: func(c *cobra.Command, _ []string) error {
			w, n, err := open(c.Context(), file)
			if err != nil {
				return err
			}
			defer n.Close()
			key, err := cli.AgentKey(w.Key)
			if err != nil {
				return err
			}
			r, err := n.Register(c.Context(), w.Verification, key, plugin)
			if err != nil {
				return err
			}
			if err := cli.PrintText(c, asJSON, r, func(out io.Writer) error { return drawRegistered(out, r) }); err != nil {
				return err
			}
			if !r.Success {
				return cli.ErrRefused
			}
			return nil
		},
	}
	fileFlag(c, &file)
	c.Flags().StringVar(&plugin.Name, "name", "", "name of the plugin")
	c.Flags().StringVar(&plugin.Description, "description", "", "what it is for")
	cli.JSONFlag(c, &asJSON)
	return c
}

// next says what the next step is.
func (w *walk) next(out io.Writer) error {
	canary, taken, step := "", len(w.Turns), ""
	if taken > 0 {
		canary = client.Call{Output: w.Turns[taken-1].Output}.Canary()
	}
	switch {
	case w.Call != nil && w.FollowUp != "":
		step = fmt.Sprintf("turn --reasoning \"...\", which names %s, %s and %s", w.Call.Tool, canary, w.Call.Canary())
	case w.Call != nil && canary != "":
		step = "turn --reasoning \"...\", which names " + canary
	case w.Call != nil:
		step = "turn --reasoning \"...\""
	case w.Answered:
		fmt.Fprintf(out, "taken     %d turns, and the follow-up is answered\n", taken)
		step = "register"
	case w.FollowUp != "":
		fmt.Fprintf(out, "taken     %d turns\nfollow-up %s\n", taken, w.FollowUp)
		step = "turn TOOL"
	default:
		fmt.Fprintf(out, "taken     %d turns\n", taken)
		step = "turn " + w.Task.RequiredTools[taken%len(w.Task.RequiredTools)]
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
		return nil
	}
	_, err := fmt.Fprintf(out, "did       %s\nresult    %s\n", r.DID, r.Verification)
	return err
}
