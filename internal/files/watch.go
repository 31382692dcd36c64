package files

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// written are the changes of a folder after which a name in it may mean something else. A growing file causes none.
	written = unix.IN_CLOSE_WRITE | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO
	// moved are the changes of a folder after which its own name may mean something else.
	moved = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF

	// breath lets changes gather, so that a busy folder costs little.
	breath = 20 * time.Millisecond
	// rest is how often files are read whose changes the kernel reports: a file system may be mounted over them.
	rest = time.Minute
	// Unwatched is how often files are read whose changes the kernel may not report.
	Unwatched = time.Second

	maxLinks = 40 // on the way of one path, as in Linux
)

// watched are file systems that only this kernel changes, so that it reports every change.
var watched = []int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC,
	unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, unix.SQUASHFS_MAGIC}

// Follow calls read once it watches files, and then whenever one of them may have changed, until ctx ends: its content,
// a symbolic link or a folder on its way. Follow also calls read once a minute, and each second after an error or where
// the kernel may not report every change. It calls failed with each new error of read once.
func Follow(ctx context.Context, paths []string, read func() error, failed func(error)) {
	said := ""
	for ctx.Err() == nil {
		w, err := watch(paths)
		pause := rest
		if err != nil {
			pause = Unwatched
		}
		if err = read(); err == nil {
			said = ""
		} else {
			pause = Unwatched
			if err.Error() != said {
				said = err.Error()
				failed(err)
			}
		}
		w.wait(ctx, pause)
	}
}

// watcher hears of changes. A nil watcher hears of none.
type watcher struct {
	fd     int
	events *os.File
	names  map[place]bool // those that count
}

// place is a name in a watched folder.
type place struct {
	watch int32
	name  string
}

// watch watches everything that decides what paths name. It fails where the kernel may not report every change.
func watch(paths []string) (*watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	w := &watcher{fd: fd, names: make(map[place]bool)}
	w.events = os.NewFile(uintptr(fd), "inotify") //nolint:gosec // a descriptor is not negative
	for _, path := range paths {
		if err := w.add(path); err != nil {
			w.events.Close()
			return nil, err
		}
	}
	return w, nil
}

// add watches the way of a path. It does so until the way is the same before and after.
func (w *watcher) add(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	for way := []step(nil); ; {
		now, err := wayOf(path)
		if err != nil || way != nil && slices.Equal(now, way) {
			return err
		}
		way = now
		for _, s := range way {
			if err := w.addStep(s); err != nil {
				return err
			}
		}
	}
}

func (w *watcher) addStep(s step) error {
	mask := uint32(moved)
	if s.name != "" {
		mask |= written
	}
	n, err := unix.InotifyAddWatch(w.fd, s.dir, mask|unix.IN_MASK_ADD|unix.IN_ONLYDIR)
	if err != nil {
		return err
	}
	var in unix.Statfs_t
	if err := unix.Statfs(s.dir, &in); err != nil {
		return err
	}
	if !slices.Contains(watched, in.Type) {
		return fmt.Errorf("the kernel may not report every change of %s", s.dir)
	}
	if s.name != "" {
		w.names[place{int32(n), s.name}] = true //nolint:gosec // the kernel's numbers have 32 bits
	}
	return nil
}

// step is a folder on the way of a path and, unless it is empty, the name in it that decides where the way leads: that
// of a symbolic link, or the last one.
type step struct{ dir, name string }

// wayOf returns the steps of an absolute path. The way ends where a folder is missing.
func wayOf(path string) (way []step, err error) {
	at, links := "/", 0
	for names := strings.Split(path, "/"); len(names) > 0; {
		name := names[0]
		names = names[1:]
		next := filepath.Join(at, name) // at has no links, so this is right for ".." too
		target, err := os.Readlink(next)
		switch {
		case err == nil:
			if links++; links > maxLinks {
				return nil, unix.ELOOP
			}
			way = append(way, step{at, name})
			names = append(strings.Split(target, "/"), names...)
			if filepath.IsAbs(target) {
				at = "/"
			}
		case len(names) == 0 || errors.Is(err, os.ErrNotExist):
			return append(way, step{at, name}), nil
		case next != at:
			way = append(way, step{next, ""})
			at = next
		}
	}
	return way, nil
}

// wait waits until a change counts, at most pause, and closes the watcher.
func (w *watcher) wait(ctx context.Context, pause time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	if w == nil {
		<-ctx.Done()
		return
	}
	defer w.events.Close()
	defer context.AfterFunc(ctx, func() { _ = w.events.SetReadDeadline(time.Now()) })()
	some := make([]byte, 4096) // one event needs at most 272
	for {
		n, err := w.events.Read(some)
		if err != nil {
			return
		}
		time.Sleep(breath)
		if w.counts(some[:n]) {
			return
		}
	}
}

// counts reports whether an event is about a name that counts, a moved folder, or lost events.
func (w *watcher) counts(events []byte) bool {
	for len(events) >= unix.SizeofInotifyEvent {
		watch, length := binary.NativeEndian.Uint32(events), binary.NativeEndian.Uint32(events[12:])
		end := unix.SizeofInotifyEvent + int(length)
		name := strings.TrimRight(string(events[unix.SizeofInotifyEvent:end]), "\x00")
		if name == "" || w.names[place{int32(watch), name}] { //nolint:gosec // a number of the kernel
			return true
		}
		events = events[end:]
	}
	return false
}
