// Package check holds what the tests of several packages share.
package check

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Must ends the test if any of errs is not nil.
func Must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// CodeOf returns the code of a refusal, and "internal" for any other error.
func CodeOf(err error) string {
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		return coded.Code()
	}
	return "internal"
}

// WantCode ends the test if err is not a refusal with this code. Its sentence must hold each of the texts.
func WantCode(t testing.TB, err error, code string, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("got no error, want the code %s", code)
	}
	if got := CodeOf(err); got != code {
		t.Fatalf("got the code %s (%v), want %s", got, err, code)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the sentence lacks %q:\n%v", text, err)
		}
	}
}

// WantEqual reports values that differ in any part.
func WantEqual(t testing.TB, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

// Together calls f n times at once. It returns how often f succeeded, and reports an error that is not one of allowed.
func Together(t testing.TB, n int, f func(i int) error, allowed ...error) int {
	t.Helper()
	var done atomic.Int64
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			switch err := f(i); {
			case err == nil:
				done.Add(1)
			case !slices.ContainsFunc(allowed, func(one error) bool { return errors.Is(err, one) }):
				t.Error(err)
			}
		})
	}
	all.Wait()
	return int(done.Load())
}

// IsTimeout reports whether a deadline has ended what returned err.
func IsTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// SmallDisk mounts a disk of a size such as 1m at dir until the test ends. fill fills it, and empty makes room again.
func SmallDisk(t testing.TB, dir, size string) (fill, empty func()) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		t.Fatalf("mount a file system: %v: run the tests as root", err)
	}
	t.Cleanup(func() { Must(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	filler := filepath.Join(dir, "filler")
	fill = func() {
		if err := os.WriteFile(filler, make([]byte, 4<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("the disk is not full: %v", err)
		}
	}
	return fill, func() { Must(t, os.Remove(filler)) }
}

// AwaitTracer waits until the process pid is traced. It is for gdb, which says nothing that could be waited for once it
// has attached.
func AwaitTracer(t testing.TB, pid string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a bound for a broken test, not a measure
	defer cancel()
	for ctx.Err() == nil {
		raw, err := os.ReadFile("/proc/" + pid + "/status")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(raw), "TracerPid:\t0\n") {
			return
		}
	}
	t.Fatal("gdb does not attach: run make setup")
}
