package devstack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/proxy/intercept"
)

// maxEarlier bounds the folders of earlier starts. The oldest are removed.
const maxEarlier = 256

// setAside moves the public files of the previous start into their own folder, for the verification of its records.
func (s *Stack) setAside(now time.Time) error {
	names := []string{RegistryFile, AuditorFile}
	history, err := archive.HistoryFiles(s.bundle())
	if err != nil {
		return err
	}
	for _, path := range append(history, s.bundle()) {
		names = append(names, filepath.Base(path))
	}
	at := func(name string) string { return filepath.Join(s.Dir, name) }
	if _, err := os.Stat(at(BundleFile)); err == nil {
		if err := s.keepEarlier(now, names); err != nil {
			return fmt.Errorf("keep the files that verify the records of the previous start: %w", err)
		}
	}
	for _, name := range names {
		if err := os.Remove(at(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// keepEarlier links files into a new folder below EarlierFolder, which gets its name once it is complete.
func (s *Stack) keepEarlier(now time.Time, names []string) error {
	earlier := filepath.Join(s.Dir, EarlierFolder)
	incomplete := filepath.Join(earlier, ".new")
	if err := errors.Join(os.RemoveAll(incomplete), os.MkdirAll(incomplete, 0o700)); err != nil {
		return err
	}
	for _, name := range names {
		if err := os.Link(filepath.Join(s.Dir, name), filepath.Join(incomplete, name)); err != nil &&
			!errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(incomplete,
		filepath.Join(earlier, now.UTC().Format("20060102T150405.000000000Z"))); err != nil {
		return err
	}
	folders, err := filepath.Glob(filepath.Join(earlier, "*Z"))
	if err != nil {
		return err
	}
	slices.Sort(folders) // by time
	for len(folders) > maxEarlier {
		if err := os.RemoveAll(folders[0]); err != nil {
			return err
		}
		folders = folders[1:]
	}
	return nil
}

// caLifetime is the validity of a stack's CA. A start replaces a CA within caRenewal of its end.
const caLifetime, caRenewal = 30 * 24 * time.Hour, 7 * 24 * time.Hour

// keepCA makes the interception CA in the stack's folder, unless a CA there covers every host of the rules: clients go
// on trusting it after a restart.
func (s *Stack) keepCA(now time.Time) error {
	c, err := config.Load[config.Sidecar](filepath.Join(s.Dir, SidecarFile))
	if err != nil {
		return err
	}
	dir := filepath.Join(s.Dir, CAFolder)
	if c.CA.Dir != dir {
		return nil
	}
	ca, err := intercept.LoadCA(dir, now)
	switch {
	case err == nil && ca.Expires().After(now.Add(caRenewal)) && ca.Constrained() != c.CA.Unconstrained &&
		!slices.ContainsFunc(slices.Concat(c.Hosts(), c.CA.Permit), func(h string) bool { return !ca.Covers(h) }):
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, intercept.ErrCANotValid):
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	o := intercept.CAOptions{Lifetime: caLifetime, Now: time.Now}
	if o.Constraints, err = c.Constraints(); err != nil {
		return err
	}
	_, err = intercept.CreateCA(dir, o)
	return err
}
