package files

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// written are the changes of a folder that can change a file in it. A growing log causes none of them.
	written = unix.IN_CLOSE_WRITE | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO
	// breath is the least time between two changes that Watch yields.
	breath = 20 * time.Millisecond
	// unwatched is the period of Watch if the kernel reports no changes.
	unwatched = 250 * time.Millisecond
)

// Watch yields once it watches a file's folder, and then whenever something in it has changed, until ctx ends. It also
// yields once each period: network file systems and links into other folders do not report changes.
func Watch(ctx context.Context, path string, period time.Duration) iter.Seq[struct{}] {
	return func(yield func(struct{}) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		changes, err := watchFolder(ctx, filepath.Dir(path))
		if err != nil {
			period = min(period, unwatched)
		}
		tick := time.NewTicker(period)
		defer tick.Stop()
		for yield(struct{}{}) {
			select {
			case <-ctx.Done():
				return
			case <-changes:
			case <-tick.C:
			}
		}
	}
}

// Follow calls read each time that Watch yields. It calls failed with each new error of read once.
func Follow(ctx context.Context, path string, period time.Duration, read func() error, failed func(error)) {
	said := ""
	for range Watch(ctx, path, period) {
		err := read()
		switch {
		case err == nil:
			said = ""
		case err.Error() != said:
			said = err.Error()
			failed(err)
		}
	}
}

// watchFolder sends to the channel when a folder has changed, until ctx ends.
func watchFolder(ctx context.Context, dir string) (<-chan struct{}, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	events := os.NewFile(uintptr(fd), "inotify") //nolint:gosec // a descriptor is not negative
	if _, err := unix.InotifyAddWatch(fd, dir, written); err != nil {
		events.Close()
		return nil, err
	}
	context.AfterFunc(ctx, func() { events.Close() })
	changes := make(chan struct{}, 1)
	go func() {
		some := make([]byte, 4096) // one event needs at most 272
		for {
			if _, err := events.Read(some); err != nil {
				return
			}
			select {
			case changes <- struct{}{}:
			default: // a change waits already
			}
			time.Sleep(breath)
		}
	}()
	return changes, nil
}
