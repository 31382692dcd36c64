package chain

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/cli/records"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/devstack"
)

// judgeFlags are the common flags of verify and posts export: they select records and the trust.
type judgeFlags struct {
	selected          records.SelectionFlags
	trust             config.Trust
	manifest, earlier string
}

func (f *judgeFlags) add(c *cobra.Command) {
	f.selected.Add(c)
	cli.TrustFlags(c, &f.trust)
	c.Flags().StringVar(&f.manifest, "manifest", "manifest.yaml",
		"the strict deployment manifest, beside those in the bundle's history")
	c.Flags().StringVar(&f.earlier, "earlier", "earlier",
		"a folder with a folder for each pair of earlier roots, with files that are called as these")
	cli.FileFromDir(c, "manifest", devstack.ManifestFile)
	cli.FileFromDir(c, "earlier", devstack.EarlierFolder)
}

func (f *judgeFlags) selection() (admin.Selection, archive.Archive, error) {
	s, err := f.selected.Parse(time.Now())
	if err != nil {
		return s, nil, err
	}
	s.OldestFirst = true
	a, err := f.archive()
	return s, a, err
}

func (f *judgeFlags) archive() (archive.Archive, error) {
	return f.with(archive.Read(f.trust, f.manifest))
}

func (f *judgeFlags) pins(c *cobra.Command) (archive.Archive, error) {
	if _, err := os.Stat(f.trust.Bundle); !c.Flags().Changed("bundle") && errors.Is(err, fs.ErrNotExist) {
		return f.with(archive.ReadRoots(f.trust.Registry, f.trust.Auditor))
	}
	return f.with(archive.Read(f.trust, ""))
}

func (f *judgeFlags) with(today *archive.Trust, err error) (archive.Archive, error) {
	if err != nil {
		return nil, err
	}
	earlier, err := archive.ReadEarlier(f.earlier, f.trust)
	return archive.Join(today, earlier), err
}
