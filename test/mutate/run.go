package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// tally counts what became of mutants.
type tally struct{ mutants, killed, late, broken, equivalent, survived, stale int }

func (t *tally) add(o tally) {
	t.mutants += o.mutants
	t.killed += o.killed
	t.late += o.late
	t.broken += o.broken
	t.equivalent += o.equivalent
	t.survived += o.survived
}

func (t tally) String() string {
	return fmt.Sprintf("%d mutants, %d killed, %d timed out, %d not compiled, %d equivalent, %d survived", t.mutants, t.killed, t.late, t.broken, t.equivalent, t.survived)
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
	mu     sync.Mutex // guards what follows, and out
	killer string     // the test that killed the mutant before, which most often stands beside the next; it is tried first
	tally
	lived map[string]bool // the equivalent ones that survived
}

// paces are how long tests may take that are run before slower ones; most mutants are killed by the quickest.
var paces = []time.Duration{200 * time.Millisecond, time.Second, time.Hour}

func (t *trial) run(ctx context.Context, mutants []mutant, only *regexp.Regexp) (err error) {
	t.lived = make(map[string]bool)
	if t.tmp, err = os.MkdirTemp("", "mutate"); err != nil {
		return err
	}
	defer os.RemoveAll(t.tmp)
	took := time.Duration(0)
	if t.rounds, took, err = roundsOf(ctx, t.dir); err != nil {
		return err
	}
	t.timeout = max(t.timeout, 10*took) // on a machine that is busy with something else
	files, err := switched(t.dir, filepath.Base(t.dir), mutants)
	if err != nil {
		return err
	}
	if t.shared, err = t.compile(ctx, t.tmp, files); err != nil {
		return err
	}
	if err := t.sound(ctx); err != nil {
		return err
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
	return t.sound(ctx) // where the tests fail by now, as without their database, they may have failed for any mutant
}

// sound demands that the tests pass with all mutants in the package and none of them on.
func (t *trial) sound(ctx context.Context) error {
	verdict := t.judge(ctx, mutant{number: -1})
	if ctx.Err() == nil && verdict != survived {
		return fmt.Errorf("the tests of %s fail with the switches in it and all of them off", t.dir)
	}
	return ctx.Err()
}

// verdict is what became of a mutant.
type verdict int

const (
	survived verdict = iota
	killed
	late // not seen to be killed: it may loop, or the machine was too slow or could not run it
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
	case v == late:
		t.late++
		fmt.Fprintf(t.out, "timed out: %s\n", m)
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

// roundsOf runs the tests of a package as it is, which must pass, sorts them by how long they take, and says how long all take.
func roundsOf(ctx context.Context, dir string) ([]string, time.Duration, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "./"+filepath.ToSlash(dir))
	out, err := cmd.Output()
	if err != nil {
		return nil, 0, fmt.Errorf("the tests of %s fail without any mutant: %w", dir, err)
	}
	took := make(map[string]time.Duration) // by test, with all that it runs in parallel; under "" the whole package
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var e struct {
			Action, Test string
			Elapsed      float64
		}
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Action == "pass" {
			test, _, _ := strings.Cut(e.Test, "/")
			took[test] += time.Duration(e.Elapsed * float64(time.Second))
		}
	}
	whole := took[""]
	delete(took, "")
	rounds := make([][]string, len(paces))
	for _, test := range slices.Sorted(maps.Keys(took)) {
		pace := slices.IndexFunc(paces, func(p time.Duration) bool { return took[test] <= p })
		rounds[pace] = append(rounds[pace], test)
	}
	var patterns []string
	for _, tests := range rounds {
		if len(tests) > 0 {
			patterns = append(patterns, "^("+strings.Join(tests, "|")+")$")
		}
	}
	return patterns, whole, nil
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
		if binary, err = t.compile(ctx, dir, files); ctx.Err() != nil {
			return late
		} else if err != nil {
			return broken
		}
	}
	for _, tests := range append(t.first(), t.rounds...) {
		if v := t.try(ctx, binary, tests, m.number); v != survived {
			return v
		}
	}
	return survived
}

// first is the test that is tried before all.
func (t *trial) first() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.killer == "" {
		return nil
	}
	return []string{"^" + t.killer + "$"}
}

// failed finds the test that has failed in what a test binary says.
var failed = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// try runs some tests of a mutant.
func (t *trial) try(ctx context.Context, binary, tests string, number int) verdict {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.failfast", "-test.timeout=0", "-test.run", tests)
	cmd.Dir = t.dir
	cmd.Env = append(os.Environ(), environment+"="+strconv.Itoa(number))
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return late
	case err == nil:
		return survived
	case !errors.As(err, &exit) || !exit.Exited(): // nothing ran, or a signal has ended it
		return late
	}
	if name := failed.FindSubmatch(out); name != nil {
		t.mu.Lock()
		t.killer = string(name[1])
		t.mu.Unlock()
	}
	return killed
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
