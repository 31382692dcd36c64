package setup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/actionproof/mediator/internal/preset"
)

// maxAnswer bounds a line that answers a question, in bytes.
const maxAnswer = 4096

type question struct {
	text, or string // the question, and what an empty line means
	set      func(a *Answers, said string)
	skip     func(a Answers) bool
}

func questions() []question {
	var presets []string
	for _, p := range preset.All() {
		presets = append(presets, p.Name)
	}
	sources, _ := exampleSources()
	noVault := func(a Answers) bool { return a.Vault == nil }
	return []question{
		{"Root keys: here, or the folder with the security team's registry.jwk and auditor.jwk", here,
			func(a *Answers, said string) { a.Roots = said }, nil},
		{"Rules for the agent (" + strings.Join(presets, " ") + ")", "none",
			func(a *Answers, said string) { a.Presets = names(said) }, nil},
		{"Sources of events (" + strings.Join(sources, " ") + ")", "github",
			func(a *Answers, said string) { a.Sources = names(said) }, nil},
		{"User of agents that are not isolated", "mediator-agent",
			func(a *Answers, said string) { a.Agent = said }, nil},
		{"Run a node too: yes or no", "no",
			func(a *Answers, said string) { a.Node = strings.HasPrefix(strings.ToLower(said), "y") }, nil},
		{"Signing keys: memory, or https://host:port of Vault", "memory",
			func(a *Answers, said string) {
				if a.Vault = nil; said != "memory" {
					a.Vault = &Vault{Address: said, TokenFile: "-"}
				}
			}, nil},
		{"File with the authorities of Vault's certificate", "the system's", func(a *Answers, said string) {
			if said != "the system's" {
				a.Vault.CA = said
			}
		}, noVault},
		{"File with a token of Vault's administrator", "admin-token",
			func(a *Answers, said string) { a.Vault.TokenFile = said }, noVault},
	}
}

func names(said string) []string {
	if said == "none" {
		return nil
	}
	return strings.FieldsFunc(said, func(r rune) bool { return r == ' ' || r == ',' })
}

// Ask asks for the answers. An empty line takes the answer in brackets; after a wrong answer it asks again. It fails at
// the end of in.
func Ask(in io.Reader, out io.Writer) (a Answers, err error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxAnswer)
	for _, q := range questions() {
		for q.skip == nil || !q.skip(a) {
			fmt.Fprintf(out, "%s [%s]: ", q.text, q.or)
			if !lines.Scan() {
				return a, errors.Join(lines.Err(),
					errors.New("no answer: answer on a terminal, or name a file with --file"))
			}
			said := strings.TrimSpace(lines.Text())
			if said == "" {
				said = q.or
			}
			now := a
			q.set(&now, said)
			if err := now.check(); err != nil {
				fmt.Fprintln(out, err)
				continue
			}
			a = now
			break
		}
	}
	return a, nil
}
