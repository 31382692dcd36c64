package start

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/cli/records"
	"github.com/actionproof/mediator/internal/demo"
	"github.com/actionproof/mediator/internal/demo/agent"
)

// Demo returns the command that plays the demo, with its hidden agent and APIs.
func Demo() *cobra.Command {
	var model string
	c := &cobra.Command{
		Use: "demo", Short: "Play every scenario with real processes, and compare the results with the expected ones",
		Args: cli.NoArgs,
		Example: `  mediator demo
  mediator demo --model 127.0.0.1:8190`,
		Long: `With --model it plays nothing, and serves the demo's model at an address, over HTTP in the form of Anthropic's
Messages API without streams, to try out rules about models.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if model != "" {
				return demo.ServeModel(c.Context(), model, func(at string) {
					fmt.Fprintf(c.ErrOrStderr(), "the model %s answers at http://%s/v1/messages\n", agent.ModelName, at)
				})
			}
			return runDemo(c.Context(), cli.AsJSON(c), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	c.Flags().Bool("json", false, "print one JSON object for each scenario")
	c.Flags().StringVar(&model, "model", "", "serve the demo's model at this address")
	c.AddCommand(demoAgentCommand())
	return c
}

func runDemo(ctx context.Context, asJSON bool, stdout, stderr io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	d, err := demo.New(ctx)
	defer d.Stop()
	if err != nil {
		return err
	}
	if !asJSON {
		fmt.Fprintln(stdout, "Each line is a scenario and what happened in it. A refusal is named by its code.")
	}
	all, good := 0, 0
	d.Play(ctx, func(p demo.Result) {
		if asJSON {
			_ = cli.WriteJSONLine(stdout, p) // the exit status tells enough
		} else {
			printPlayed(stdout, p)
		}
		if all++; p.OK {
			good++
		}
	})
	if !asJSON {
		printDemo(stdout, d)
		fmt.Fprintf(stdout, "demo: %d scenarios, %d as expected\n", all, good)
	}
	if good != all {
		fmt.Fprint(stderr, d.Logs())
		return cli.ErrRefused
	}
	return nil
}

func printDemo(w io.Writer, d *demo.Demo) {
	if d.First.ID != "" {
		fmt.Fprintln(w, "\nThe evidence of the first post:")
		records.DrawChain(cli.Indent(w), d.First.Artifacts)
		fmt.Fprintln(w)
	}
	if d.Thought.ID != "" {
		fmt.Fprintln(w, "What the agent that thinks did, from its first call to its post:")
		records.PrintTimeline(w, d.Thought)
		fmt.Fprintln(w)
	}
}

// printPlayed prints a scenario and what happened. It prints what was expected only if something else happened.
func printPlayed(w io.Writer, p demo.Result) {
	mark, happened := "ok  ", p.Happened
	if !p.OK {
		mark, happened = "FAIL", fmt.Sprintf("%s (expected: %s)", p.Happened, p.Expected)
	}
	fmt.Fprintf(w, "%s %6.0f ms  %s → %s\n", mark, p.Millis, p.Scenario, happened)
}

func demoAgentCommand() *cobra.Command {
	var call agent.Call
	var times int
	var tools []string
	c := &cobra.Command{
		Use: "agent METHOD URL", Short: "Make one call as the demo's agent", Hidden: true,
		Args: cli.ExactArgs(2, "a method and a URL"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), 15*time.Second)
			defer cancel()
			call.Method, call.URL = args[0], args[1]
			if len(tools) == 0 {
				tools = make([]string, times)
			}
			for _, call.Tool = range tools {
				r, err := call.Do(ctx)
				if err != nil {
					return err
				}
				if err := cli.WriteJSONLine(c.OutOrStdout(), r); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().StringVar(&call.Body, "body", "", "JSON to send")
	c.Flags().BoolVar(&call.Think, "think", false, "ask a model at the same host what to post")
	c.Flags().BoolVar(&call.Verify, "verify", false, "pass a verification at URL")
	c.Flags().StringVar(&call.Commit, "commit", "",
		"take a challenge of the node: commit to ask the model at this host once, ask it --calls times, and reveal")
	c.Flags().IntVar(&call.Calls, "calls", 1, "how often to ask the model that --commit names")
	c.Flags().BoolVar(&call.Solve, "solve", false, "solve the challenge when asked to")
	c.Flags().IntVar(&times, "times", 1, "how often to make the call")
	c.Flags().StringSliceVar(&tools, "tool", nil, "call these tools of the MCP server at URL, one after the other")
	c.Flags().StringVar(&call.Host, "host", "", "name another host inside the tunnel than the CONNECT does")
	return c
}
