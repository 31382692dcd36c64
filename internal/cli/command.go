// Package cli is what all commands of the mediator share: how a command is put together, the flags that several
// commands have, and how a result is printed. The commands themselves are in the packages below it, one for each group:
//
//	records        what is on record: posts, events, explain, ledger
//	chain          chains of evidence: verify, posts export and open, log audit
//	node           what the node knows: reputation, verification, dispute
//	keys           the security team's work: keys, deployment, ca, vault
//	challenges     what a gate issues and verifies: challenge, capability, hash-payload
//	operate        running processes and their files: doctor, reload, guard, config
//	start          an agent, a development stack, the demo: run, dev, demo
//
// A command is a function that returns a [cobra.Command]. Its flags are variables of that function. Flags that several
// commands have are a function here, such as [AdminFlag], or a type with a method Add. A command that prints a result
// takes [JSONFlag] and ends with [Print], [PrintText] or [PrintTable]. It returns an error, and never ends the process:
// package main makes the exit status.
package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/strict"
)

// ErrRefused ends a command with status 1 after the command has printed the reason itself.
var ErrRefused = errors.New("refused")

// UsageError marks an error as wrong usage of a command.
type UsageError struct{ error }

// Usage returns err as wrong usage.
func Usage(err error) error { return UsageError{err} }

// Usagef returns an error that says what is wrong with the usage of a command.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// NoArgs refuses arguments.
func NoArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("%s does not take the argument %q", c.CommandPath(), args[0])
	}
	return nil
}

// ExactArgs refuses every number of arguments but n. what says what the arguments are.
func ExactArgs(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return Usagef("%s takes %s", c.CommandPath(), what)
		}
		return nil
	}
}

// OneArgAtMost refuses several arguments. what says what the argument is.
func OneArgAtMost(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return Usagef("%s takes at most one %s", c.CommandPath(), what)
		}
		return nil
	}
}

// SomeArgs refuses a command without arguments. what says what the arguments are.
func SomeArgs(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return Usagef("%s takes %s", c.CommandPath(), what)
		}
		return nil
	}
}

// Group makes a command that only holds other commands.
func Group(use, about string, commands ...*cobra.Command) *cobra.Command {
	names := make([]string, len(commands))
	for i, c := range commands {
		names[i] = c.Name()
	}
	g := &cobra.Command{Use: use, Short: about + ": " + strings.Join(names, ", "), Args: NoOtherCommand,
		RunE: func(c *cobra.Command, _ []string) error {
			return c.Help()
		}}
	g.AddCommand(commands...)
	return g
}

// NoOtherCommand refuses arguments of a command that only holds other commands: they name none of those.
func NoOtherCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			names = append(names, sub.Name())
		}
	}
	return Usagef("%s has no command %q%s", c.CommandPath(), args[0], strict.Suggest(args[0], names))
}

// Check adds a check of a command's flags, which runs before the command does.
func Check(c *cobra.Command, check func(*cobra.Command) error) {
	before := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if before != nil {
			if err := before(c, args); err != nil {
				return err
			}
		}
		return check(c)
	}
}

func example(c *cobra.Command) string {
	if c.Example == "" {
		return ""
	}
	return ", for example:\n" + c.Example
}

// Required makes it wrong usage to leave out a flag, unless a check before has given it a value.
func Required(c *cobra.Command, flag string) {
	Check(c, func(c *cobra.Command) error {
		if f := c.Flags().Lookup(flag); !f.Changed && f.Value.String() == f.DefValue {
			return Usagef("%s needs --%s%s", c.CommandPath(), flag, example(c))
		}
		return nil
	})
}
