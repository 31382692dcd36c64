// Package compare compares the benchmarks beside the hot paths of two versions of the source, and fails where one became slower.
package compare

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// hot are the packages that each post goes through.
const hot = "evidence,gate,gate/challenge,policy,proxy,proxy/intercept,proxy/upstream,ledger,trigger,signer,internal/wire"

// tree is one of the two source trees that are compared.
type tree struct {
	name, dir string
	output    string // file with the output of its benchmarks
}

// comparison compares the benchmarks of the working tree with those of another version.
type comparison struct {
	ref       string
	packages  []string
	count     int
	bench     string
	benchtime string
	threshold float64 // per cent
	dir       string
}

// Run is the command "bench compare" with its arguments.
func Run(ctx context.Context, args []string) error {
	var c comparison
	var packages string
	f := flag.NewFlagSet("bench compare", flag.ContinueOnError)
	f.StringVar(&c.ref, "ref", "", "version to compare with; empty: the last release tag")
	f.StringVar(&packages, "packages", hot, "packages")
	f.IntVar(&c.count, "count", 6, "runs of each benchmark, at least 6: with fewer nothing is significant")
	f.StringVar(&c.bench, "bench", ".", "only benchmarks that match")
	f.StringVar(&c.benchtime, "benchtime", "200ms", "time of one run")
	f.Float64Var(&c.threshold, "threshold", 10, "per cent by which a benchmark may be slower")
	if err := f.Parse(args); err != nil {
		return err
	}
	if c.count < 6 {
		return errors.New("-count: at least 6 runs are needed")
	}
	c.packages = strings.Split(packages, ",")
	if c.ref == "" {
		out, err := exec.CommandContext(ctx, "git", "describe", "--tags", "--abbrev=0").Output()
		if err != nil {
			return errors.New("there is no release tag: name a version to compare with, as make bench-compare REF=origin/main")
		}
		c.ref = strings.TrimSpace(string(out))
	}
	var err error
	if c.dir, err = os.MkdirTemp("", "bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(c.dir)
	return c.run(ctx)
}

func (c comparison) run(ctx context.Context) error {
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	before := tree{"before", filepath.Join(c.dir, "tree"), filepath.Join(c.dir, "before.txt")}
	now := tree{"now", here, filepath.Join(c.dir, "now.txt")}
	if out, err := exec.CommandContext(ctx, "git", "worktree", "add", "--detach", before.dir, c.ref).CombinedOutput(); err != nil {
		return fmt.Errorf("git worktree add %s: %w: %s", c.ref, err, out)
	}
	defer exec.Command("git", "worktree", "remove", "--force", before.dir).Run() //nolint:errcheck // git worktree prune does it later
	packages := c.build(ctx, now, before)
	if len(packages) == 0 {
		return errors.New("no package has tests in both versions")
	}
	for round := range c.count {
		order := []tree{before, now}
		if round%2 == 1 {
			order = []tree{now, before}
		}
		for _, p := range packages {
			for _, t := range order {
				if err := c.measure(ctx, t, p); err != nil {
					return err
				}
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, c.count)
	}
	return c.judge(ctx, before, now)
}

// binary is where the tests of a package in a tree are built.
func (c comparison) binary(t tree, pkg string) string {
	return filepath.Join(c.dir, t.name+"-"+strings.ReplaceAll(pkg, "/", "-"))
}

// build builds the tests of each package in both trees, and returns the packages that both have.
func (c comparison) build(ctx context.Context, trees ...tree) (packages []string) {
	for _, p := range c.packages {
		ok := true
		for _, t := range trees {
			cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", c.binary(t, p), "./"+p)
			cmd.Dir = t.dir
			if out, err := cmd.CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "%s: left out: its tests do not build %s: %s\n", p, t.name, bytes.TrimSpace(out))
				ok = false
			}
		}
		if ok {
			packages = append(packages, p)
		}
	}
	return packages
}

// measure runs the benchmarks of a package once.
func (c comparison) measure(ctx context.Context, t tree, pkg string) error {
	cmd := exec.CommandContext(ctx, c.binary(t, pkg), "-test.run=^$", "-test.bench="+c.bench, "-test.benchtime="+c.benchtime, "-test.timeout=10m")
	cmd.Dir = filepath.Join(t.dir, pkg)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s, %s: %w: %s", pkg, t.name, err, out)
	}
	file, err := os.OpenFile(t.output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(out)
	return errors.Join(err, file.Close())
}

// judge prints benchstat's tables, and fails when a time has risen by more than the threshold and benchstat finds it significant.
func (c comparison) judge(ctx context.Context, before, now tree) error {
	stat := func(format string) ([]byte, error) {
		out, err := exec.CommandContext(ctx, "go", "tool", "benchstat", "-format", format, c.ref+"="+before.output, "working-tree="+now.output).Output()
		if err != nil {
			err = fmt.Errorf("benchstat: %w", err)
		}
		return out, err
	}
	tables, err := stat("text")
	if err != nil {
		return err
	}
	fmt.Printf("%s\n", tables)
	table, err := stat("csv")
	if err != nil {
		return err
	}
	slower, compared := c.slower(table)
	switch {
	case compared == 0:
		return errors.New("no benchmark is in both versions")
	case len(slower) > 0:
		return fmt.Errorf("slower than %s by more than %g %%:\n  %s", c.ref, c.threshold, strings.Join(slower, "\n  "))
	}
	fmt.Printf("None of %d times is significantly more than %g %% above that of %s.\n", compared, c.threshold, c.ref)
	return nil
}

// slower reads benchstat's CSV: a table for each package and unit, whose rows end in the change, "~" where it is not significant, and its p.
func (c comparison) slower(table []byte) (slower []string, compared int) {
	var pkg, unit string
	for row := range strings.Lines(string(table)) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(row), "pkg: "); ok {
			pkg = p[strings.LastIndex(p, "/")+1:]
			continue
		}
		fields, err := csv.NewReader(strings.NewReader(row)).Read()
		if err != nil || len(fields) < 7 {
			continue
		}
		if fields[0] == "" {
			unit = fields[1]
			continue
		}
		if !strings.HasSuffix(unit, "sec/op") || fields[0] == "geomean" || fields[1] == "" || fields[3] == "" {
			continue
		}
		compared++
		change, err := strconv.ParseFloat(strings.TrimSuffix(fields[5], "%"), 64) // "~" is no number
		if err == nil && change > c.threshold {
			slower = append(slower, fmt.Sprintf("%s %s, %s: %s (%s)", pkg, fields[0], unit, fields[5], fields[6]))
		}
	}
	return slower, compared
}
