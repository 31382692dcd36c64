package chain

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/httpsig"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/cli/records"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/process/registrar"
	kept "github.com/actionproof/mediator/internal/registrar"
	"github.com/actionproof/mediator/ledger"
)

// judgeFlags are the common flags of verify and posts export: they select records and the trust.
type judgeFlags struct {
	selected          records.SelectionFlags
	trust             config.Trust
	manifest, earlier string
	apiKeys           []string
	temporary         string // folder of the registrar's bundle; empty without one
}

func (f *judgeFlags) done() {
	if f.temporary != "" {
		_ = os.RemoveAll(f.temporary)
	}
}

func (f *judgeFlags) add(c *cobra.Command) {
	f.selected.Add(c)
	f.addPins(c)
	f.addManifest(c)
	c.Flags().StringArrayVar(&f.apiKeys, "api-keys", nil,
		"[HOST=]FILE: a PEM file of the public keys with which the API at HOST, or any, signs its answers; repeat for "+
			"more")
}

func (f *judgeFlags) addManifest(c *cobra.Command) {
	c.Flags().StringVar(&f.manifest, "manifest", "manifest.yaml",
		"the strict deployment manifest, beside those in the bundle's history")
	cli.FileFromDir(c, "manifest", devstack.ManifestFile)
}

// addPins adds the flags of pins.
func (f *judgeFlags) addPins(c *cobra.Command) {
	cli.TrustFlags(c, &f.trust)
	c.Flags().StringVar(&f.earlier, "earlier", "earlier",
		"a folder with a folder for each pair of earlier roots, with files that are called as these")
	cli.FileFromDir(c, "earlier", devstack.EarlierFolder)
}

func (f *judgeFlags) selection(c *cobra.Command, from records.Source) (ledger.Query, archive.Archive, error) {
	s, err := f.selected.Parse(time.Now())
	if err != nil {
		return s, nil, err
	}
	s.OldestFirst = true
	dsn, err := from.DSN()
	if err != nil {
		return s, nil, err
	}
	read := f.archive
	if dsn != "" && !c.Flags().Changed("bundle") {
		read = func() (archive.Archive, error) { return f.registrars(c, dsn) }
	}
	a, err := read()
	return s, a, err
}

// registrars reads the bundle and the manifests that a registrar keeps in a database.
func (f *judgeFlags) registrars(c *cobra.Command, dsn string) (a archive.Archive, err error) {
	if f.temporary, err = os.MkdirTemp("", "mediator-trust-"); err != nil {
		return nil, err
	}
	if err := registrar.CopyTrust(c.Context(), dsn, f.temporary); err != nil {
		return nil, fmt.Errorf("the registrar's bundle, which --bundle replaces: %w", err)
	}
	trust := f.trust
	trust.Bundle = filepath.Join(f.temporary, kept.BundleFile)
	theirs, err := archive.Read(trust, "")
	if _, missing := os.Stat(f.trust.Bundle); err != nil || errors.Is(missing, fs.ErrNotExist) {
		return f.with(theirs, err)
	}
	own, err := archive.Read(f.trust, "") // may know of a revocation that the database has lost
	if err == nil {
		archive.Join(own, archive.Archive{theirs})
	}
	return f.with(own, err)
}

func (f *judgeFlags) archive() (archive.Archive, error) {
	return f.with(archive.Read(f.trust, f.manifest))
}

const unreadablePins = "what is pinned, or the bundle beside it, cannot be read (--registry, --auditor and --bundle " +
	"name them)"

// pins reads the pinned roots, and the bundle if it is there.
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
	all := archive.Join(today, earlier)
	if err != nil || len(f.apiKeys) == 0 {
		return all, err
	}
	byHost := make(map[string]httpsig.Keys)
	for _, named := range f.apiKeys {
		host, path, found := strings.Cut(named, "=")
		if !found || strings.ContainsRune(host, filepath.Separator) {
			host, path = "", named
		}
		keys, err := gate.ReadAnswerKeys(path)
		if err != nil {
			return all, err
		}
		if byHost[host] == nil {
			byHost[host] = make(httpsig.Keys)
		}
		maps.Copy(byHost[host], keys)
	}
	for _, t := range all {
		t.AnswerKeys = byHost
	}
	return all, nil
}
