package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// tally counts what became of mutants.
type tally struct{ mutants, killed, broken, equivalent, survived, stale int }

func (t *tally) add(o tally) {
	t.mutants += o.mutants
	t.killed += o.killed
	t.broken += o.broken
	t.equivalent += o.equivalent
	t.survived += o.survived
}

func (t tally) String() string {
	return fmt.Sprintf("%d mutants, %d killed, %d not compiled, %d equivalent, %d survived", t.mutants, t.killed, t.broken, t.equivalent, t.survived)
}

// trial runs the mutants of one package.
type trial struct {
	dir        string
	parallel   int
	timeout    time.Duration
	out        io.Writer
	equivalent map[string]bool

	tmp    string
	rounds []string   // the tests to run, one pattern after another: the quick ones first
	shared string     // the test binary of all mutants with a switch
	mu     sync.Mutex // guards out, tally and lived
	tally
	lived map[string]bool // the equivalent ones that survived
}

// quick is how long a test may take that is run before the others.
const quick = 200 * time.Millisecond

func (t *trial) run(ctx context.Context, mutants []mutant, only *regexp.Regexp) (err error) {
	t.lived = make(map[string]bool)
	if t.tmp, err = os.MkdirTemp("", "mutate"); err != nil {
		return err
	}
	defer os.RemoveAll(t.tmp)
	if t.rounds, err = roundsOf(ctx, t.dir); err != nil {
		return err
	}
	files, err := switched(t.dir, filepath.Base(t.dir), mutants)
	if err != nil {
		return err
	}
	if t.shared, err = t.compile(ctx, t.tmp, files); err != nil {
		return err
	}
	if t.judge(ctx, mutant{number: -1}) != survived {
		return fmt.Errorf("the tests of %s fail with the switches in it and all of them off", t.dir)
	}
	work := make(chan mutant)
	var all sync.WaitGroup
	for range t.parallel {
		all.Go(func() {
			for m := range work {
				t.record(m, t.judge(ctx, m))
			}
		})
	}
	for _, m := range mutants {
		if only.MatchString(m.String()) {
			work <- m
		}
	}
	close(work)
	all.Wait()
	return ctx.Err()
}

// verdict is what became of a mutant.
type verdict int

const (
	survived verdict = iota
	killed
	broken
)

func (t *trial) record(m mutant, v verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mutants++
	switch {
	case v == killed:
		t.killed++
	case v == broken:
		t.broken++
		fmt.Fprintf(t.out, "not compiled: %s\n", m)
	case t.equivalent[m.id()]:
		t.tally.equivalent++
		t.lived[m.id()] = true
	default:
		t.survived++
		fmt.Fprintf(t.out, "survived: %s\n", m)
	}
}

// stale reports the entries of the list of equivalent mutants that are none any more.
func (t *trial) stale() (n int) {
	for id := range t.equivalent {
		file, _, _ := strings.Cut(id, ":")
		if filepath.Dir(file) == filepath.ToSlash(t.dir) && !t.lived[id] {
			fmt.Fprintf(t.out, "stale: %s: no such mutant survives\n", id)
			n++
		}
	}
	return n
}

// roundsOf runs the tests of a package as it is, which must pass, and sorts them by how long they take.
func roundsOf(ctx context.Context, dir string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "./"+filepath.ToSlash(dir))
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("the tests of %s fail without any mutant: %w", dir, err)
	}
	var short, long []string
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var e struct {
			Action, Test string
			Elapsed      float64
		}
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Action != "pass" || e.Test == "" || strings.Contains(e.Test, "/") {
			continue
		}
		if e.Elapsed <= quick.Seconds() {
			short = append(short, e.Test)
		} else {
			long = append(long, e.Test)
		}
	}
	var rounds []string
	for _, names := range [][]string{short, long} {
		if len(names) > 0 {
			rounds = append(rounds, "^("+strings.Join(names, "|")+")$")
		}
	}
	return rounds, nil
}

// judge runs the tests of a mutant until one fails.
func (t *trial) judge(ctx context.Context, m mutant) verdict {
	binary := t.shared
	if m.alone {
		dir, err := os.MkdirTemp(t.tmp, "")
		if err != nil {
			return broken
		}
		defer os.RemoveAll(dir)
		files, err := m.replaced()
		if err != nil {
			return broken
		}
		if binary, err = t.compile(ctx, dir, files); err != nil {
			return broken
		}
	}
	for _, tests := range t.rounds {
		if !t.pass(ctx, binary, tests, m.number) {
			return killed
		}
	}
	return survived
}

// pass runs some tests of a mutant.
func (t *trial) pass(ctx context.Context, binary, tests string, number int) bool {
	ctx, cancel := context.WithTimeout(ctx, t.timeout+10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.failfast", "-test.timeout", t.timeout.String(), "-test.run", tests)
	cmd.Dir = t.dir
	cmd.Env = append(os.Environ(), environment+"="+strconv.Itoa(number))
	return cmd.Run() == nil
}

// compile builds the package's test binary in dir with some files replaced.
func (t *trial) compile(ctx context.Context, dir string, files map[string][]byte) (string, error) {
	spec, err := overlay(dir, files)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "mutant.test")
	out, err := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", spec, "-o", binary, "./"+filepath.ToSlash(t.dir)).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("compile the tests of %s: %w\n%s", t.dir, err, out)
	}
	return binary, nil
}
