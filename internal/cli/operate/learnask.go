package operate

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/learn"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/rulesfile"
	"github.com/actionproof/mediator/proxy/rules"
)

type keyboard struct {
	fd    int
	lines *bufio.Reader
}

func terminalOf(in io.Reader) (*keyboard, bool) {
	f, ok := in.(*os.File)
	if !ok || !cli.IsTerminal(f) {
		return nil, false
	}
	return &keyboard{int(f.Fd()), bufio.NewReader(f)}, true
}

var errInterrupted = errors.New("interrupted: nothing has changed")

// key waits for one key, without a line end.
func (k *keyboard) key() (byte, error) {
	before, err := unix.IoctlGetTermios(k.fd, unix.TCGETS)
	if err != nil {
		return 0, err
	}
	raw := *before
	raw.Lflag &^= unix.ICANON | unix.ECHO | unix.ISIG
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(k.fd, unix.TCSETS, &raw); err != nil {
		return 0, err
	}
	b, err := k.lines.ReadByte()
	if back := unix.IoctlSetTermios(k.fd, unix.TCSETS, before); err == nil {
		err = back
	}
	if err == io.EOF || b == 3 || b == 4 { // Ctrl-C, Ctrl-D
		return 0, errInterrupted
	}
	return b, err
}

// line asks for a line. Empty means usual.
func (k *keyboard) line(w io.Writer, question, usual string) (string, error) {
	if usual != "" {
		question += " [" + usual + "]"
	}
	fmt.Fprintf(w, "  %s: ", question)
	text, err := k.lines.ReadString('\n')
	if err != nil {
		return "", errInterrupted
	}
	if text = strings.TrimSpace(text); text == "" {
		return usual, nil
	}
	return text, nil
}

type asking struct {
	*learning
	keys  *keyboard
	w     io.Writer
	raw   []byte // the configuration with the rules accepted so far
	rules *rules.Rules
	// the last answers, offered for the next action: a secret only to the host that it was named for, because the agent
	// chooses the hosts
	subject string
	secrets map[string]string
}

func (l *learning) ask(c *cobra.Command, in *keyboard, raw []byte, now *config.Sidecar, by *rules.Rules,
	proposals []*learn.Proposal) error {
	a := &asking{learning: l, keys: in, w: cli.Plain(c.OutOrStdout()), raw: raw, rules: by,
		secrets: make(map[string]string)}
	if now.Receipts != nil {
		a.subject = now.Receipts.Subject
	}
	for i, p := range proposals {
		if !p.Open(judge(a.rules)) {
			continue
		}
		done, err := a.about(p, fmt.Sprintf("%d/%d", i+1, len(proposals)))
		if err != nil {
			return err
		}
		if done {
			break
		}
	}
	change := func(before []byte) ([]byte, error) {
		if !bytes.Equal(before, raw) {
			return nil, refusal.New("config_malformed", "%s has changed meanwhile: run mediator learn again", l.path)
		}
		return a.raw, nil
	}
	return cli.ChangeRules(c, l.path, l.from.Admin, change, func() (bool, error) {
		fmt.Fprintf(a.w, "write %s and reload? y/n ", l.path)
		key, err := in.key()
		fmt.Fprintln(a.w)
		return key == 'y', err
	})
}

const help = "a accept  w wider  n narrower  p posts or reads  s skip  d deny the host  q enough"

// about asks about one proposal until it is decided. It reports whether the person has had enough.
func (a *asking) about(p *learn.Proposal, which string) (enough bool, err error) {
	width, post := learn.Normal, p.Post
	fmt.Fprintf(a.w, "\n%s  %s\n  %s\n", which, cli.Unbroken(p.About), cli.Unbroken(sightings(p)))
	for {
		rules := p.Rules(width)
		if p.Post && !post {
			rules, _ = p.Reads(width)
		}
		if err := a.show(rules, p.Asks()); err != nil {
			return false, err
		}
		key, err := a.keys.key()
		if err != nil {
			return false, err
		}
		if key == '\r' || key == '\n' { // accepts plain reads alone
			key = 'a'
			if p.Asks() {
				key = 's'
			}
		}
		switch key {
		case 'a':
			if rules, err = a.fill(rules, p.Host); err != nil {
				return false, err
			}
			if err = a.add(rules); err == nil {
				return false, nil
			}
			fmt.Fprintf(a.w, "  %v\n", err)
		case 'w':
			width = min(width+1, learn.Wide)
		case 'n':
			width = max(width-1, learn.Narrow)
		case 'p':
			if _, ok := p.Reads(width); !p.Post || !ok {
				fmt.Fprintln(a.w, "  its rule has one kind only")
				continue
			}
			post = !post
		case 's':
			return false, nil
		case 'd':
			if err = a.deny(p.Host); err == nil {
				return false, nil
			}
			fmt.Fprintf(a.w, "  %v\n", err)
		case 'q':
			return true, nil
		}
	}
}

func (a *asking) show(rules []learn.Rule, skips bool) error {
	text, err := learn.YAML(rules, func(int) string { return "" })
	if err != nil {
		return err
	}
	usual := "Enter accepts"
	if skips {
		usual = "Enter skips"
	}
	_, err = fmt.Fprintf(a.w, "%s%s (%s) ", indent(text), help, usual)
	fmt.Fprintln(a.w)
	return err
}

func indent(text []byte) string {
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		b.WriteString("  " + line)
	}
	return b.String()
}

// fill asks for the subject and the credential of actions at a host, and offers the last answers.
func (a *asking) fill(rules []learn.Rule, host string) ([]learn.Rule, error) {
	if len(rules) == 0 || !rules[0].Post {
		return rules, nil
	}
	var err error
	if a.subject, err = a.keys.line(a.w, "subject, the agent that posts", a.subject); err != nil {
		return nil, err
	}
	secret, err := a.keys.line(a.w, "file of the bearer token, - for none", a.secrets[host])
	if err != nil {
		return nil, err
	}
	a.secrets[host] = secret
	rules = slices.Clone(rules)
	for i := range rules {
		rules[i].Subject = a.subject
		if secret != "" && secret != "-" {
			rules[i].Credential = &learn.Credential{Prefix: "Bearer ", File: secret}
		}
	}
	return rules, nil
}

func (a *asking) add(rules []learn.Rule) error {
	text, err := learn.YAML(rules, func(int) string { return "" })
	if err != nil {
		return err
	}
	return a.merge(text)
}

func (a *asking) deny(host string) error {
	text, err := yaml.Dump(map[string][]string{"deny": {host + "/**"}})
	if err != nil {
		return err
	}
	return a.merge(text)
}

// merge adds rules to the accepted ones, if the configuration is correct with them.
func (a *asking) merge(text []byte) error {
	merged, err := rulesfile.Merge(a.raw, text)
	if err != nil {
		return err
	}
	_, rules, err := a.check(merged)
	if err == nil {
		a.raw, a.rules = merged, rules
	}
	return err
}
