package chain

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/viewer"
	"github.com/actionproof/mediator/translog"
)

type opened struct {
	Page   string `json:"page"`
	Opened bool   `json:"opened"` // in a browser
}

// Open returns the command that makes a page of an export.
func Open() *cobra.Command {
	var by judgeFlags
	var policy, out string
	c := &cobra.Command{
		Use: "open FILE", Short: "Open an export as a page that verifies it in the browser",
		Example: `  mediator posts open march.jsonl.gz --registry registry.jwk --auditor auditor.jwk
  mediator posts open march.jsonl.gz --out ticket.html`,
		Args: cli.ExactArgs(1, "a file that posts export has written, or - for standard input"),
		Long: `Writes a page with the export, the verifier and the pinned root keys, and opens it in the desktop's browser.
The page verifies the export without a network, and shows what each artifact says, who says it and how that is known.
Its reader can pin other keys. The page holds the whole export, and the certificates and current revocation list of your
trust bundle, but not its history. With --out nothing is opened.`,
		RunE: func(c *cobra.Command, args []string) error {
			p, err := pageOf(c, by, policy, args[0])
			if err != nil {
				return err
			}
			to := out
			switch {
			case to == "-":
				return p.Write(c.OutOrStdout())
			case to == "" && args[0] == "-":
				return cli.Usagef("an export from standard input needs --out")
			case to == "":
				to = args[0] + ".html"
			}
			if to, err = filepath.Abs(to); err != nil {
				return err
			}
			if info, err := os.Lstat(to); err == nil && !info.Mode().IsRegular() {
				return cli.Usagef("%s is not a file that can be replaced: name another with --out", to)
			}
			if err := files.ReplaceWith(to, 0o600, p.Write); err != nil {
				return err
			}
			made := opened{Page: to, Opened: out == "" && browse(to)}
			said := "wrote " + to
			if !made.Opened && out == "" {
				said += ": open it in a browser"
			}
			return cli.Print(c, made, said)
		},
	}
	cli.JSONFlag(c)
	by.addPins(c)
	c.Flags().StringVar(&policy, "log-policy", "", aboutLogPolicy)
	c.Flags().StringVar(&out, "out", "", "the page to write, readable by its owner alone; - is standard output. "+
		"Default: FILE.html")
	return c
}

func pageOf(c *cobra.Command, by judgeFlags, policy, name string) (p viewer.Page, err error) {
	p = viewer.Page{Name: filepath.Base(name), Made: time.Now().UTC().Truncate(time.Second), By: c.Root().Version}
	if name == "-" {
		p.Name = "export.jsonl"
		p.Export, err = files.ReadAll(c.InOrStdin(), "standard input", viewer.MaxExport)
	} else {
		p.Export, err = files.ReadUpTo(name, viewer.MaxExport)
	}
	if err != nil {
		return p, err
	}
	if !archive.IsExport(bufio.NewReader(bytes.NewReader(p.Export))) {
		return p, refusal.New("evidence_malformed", "%s is not an export: write one with mediator posts export", name)
	}
	pinned, err := by.pins(c)
	if err != nil {
		return p, fmt.Errorf("%s: %w", unreadablePins, err)
	}
	for _, t := range pinned {
		registry, auditor := t.RootFiles()
		own := viewer.Pins{Registry: string(registry), Auditor: string(auditor)}
		if len(t.Bundle.Certificates) > 0 {
			bundle, err := json.Marshal(t.Bundle)
			if err != nil {
				return p, err
			}
			own.Bundle = string(bundle)
		}
		p.Pins = append(p.Pins, own)
	}
	if policy == "" {
		return p, nil
	}
	raw, err := files.Read(policy)
	if err != nil {
		return p, err
	}
	p.LogPolicy = string(raw)
	_, err = translog.ParsePolicy(raw)
	return p, err
}

// browse opens a file in the desktop's browser, if there is a desktop.
func browse(path string) bool {
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return false
	}
	return exec.Command("xdg-open", path).Start() == nil
}
