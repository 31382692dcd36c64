package records

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/strict"
)

type explanation struct {
	Code          string `json:"code"`
	Status        int    `json:"status"`
	Step          string `json:"step"`
	Title         string `json:"title"`
	Remedy        string `json:"remedy"`
	RetryAfter    int    `json:"retryAfterSeconds,omitempty"`
	AgentsGetMore bool   `json:"agentsGetDetail"`
}

// Explain returns the command that explains the code of a refusal.
func Explain() *cobra.Command {
	c := &cobra.Command{
		Use: "explain [CODE]", Short: "Explain the code of a refusal, and say what to do, or list the codes",
		Long: `Prints what docs/errors.md says of a code: what was refused, at which step, and what to do. Without CODE, it
lists all codes.`,
		Example: "  mediator explain event_closed", Args: cli.OneArgAtMost("code"),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listCodes(c)
			}
			var names []string
			for _, code := range problem.Codes() {
				if code.Name == args[0] {
					e := explained(code)
					return cli.PrintText(c, e, func(w io.Writer) error {
						_, err := fmt.Fprintf(w, "%s (step: %s)\n\n%s\n", code.Name, code.Step, code.Text())
						return err
					})
				}
				names = append(names, code.Name)
			}
			return cli.Usagef("there is no code %.80q%s", args[0], strict.Suggest(args[0], names))
		},
	}
	cli.JSONFlag(c)
	return c
}

func explained(code problem.Code) explanation {
	return explanation{code.Name, code.Status, code.Step, code.Title, code.Remedy, code.RetryAfter, code.Public}
}

func listCodes(c *cobra.Command) error {
	var all []explanation
	for _, code := range problem.Codes() {
		all = append(all, explained(code))
	}
	return cli.PrintTable(c, all, func(e explanation) []any { return []any{e.Code, e.Step, e.Title} },
		"CODE", "STEP", "TITLE")
}
