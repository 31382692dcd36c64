package auditexport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/ledger"
)

// tail bounds what is read of the end of a file, in bytes: more than one batch can have.
const tail = 4 * ledger.MaxExport

// File is a file of lines. Others may rename it away at any time: the next record makes a new one. After a crash it
// finds the records that it wrote, but did not report as exported, at the end of the file or of the last ones that were
// renamed. It is not safe for concurrent use.
type File struct {
	path   string
	format Format
	f      *os.File        // nil until the first Write, and after a failure
	found  map[string]bool // ids of the last records when it was opened: any of them may come again, however late
	wrote  map[string]bool // ids of the last records since then
}

// NewFile returns the file at path, which the first Write opens.
func NewFile(path string, format Format) *File { return &File{path: path, format: format} }

// Close closes the file.
func (d *File) Close() error {
	if d.f == nil {
		return nil
	}
	err := d.f.Close()
	d.f = nil
	return err
}

// Write appends the records that the file lacks, and syncs it.
func (d *File) Write(_ context.Context, records []ledger.Export) error {
	err := d.open()
	if err == nil {
		err = d.append(records)
	}
	if err != nil {
		err = errors.Join(fmt.Errorf("audit export to %s: %w", d.path, err), d.Close())
	}
	return err
}

// open opens the file if it is not open, or no longer at its path.
func (d *File) open() (err error) {
	if d.f != nil {
		var is, was os.FileInfo
		if was, err = d.f.Stat(); err != nil {
			return err
		}
		if is, err = os.Stat(d.path); err == nil && os.SameFile(is, was) {
			return nil
		}
		if err := d.Close(); err != nil {
			return err
		}
	}
	if d.f, err = os.OpenFile(d.path, os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW, 0o640); err != nil {
		return err
	}
	if err := syscall.Flock(int(d.f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("another process writes it: %w", err)
	}
	if err := d.trim(); err != nil {
		return err
	}
	if err := files.SyncFolder(d.path); err != nil {
		return err
	}
	return d.recall()
}

// trim removes a line that a crash has torn.
func (d *File) trim() error {
	end, err := readTail(d.f)
	if err != nil || len(end) == 0 || end[len(end)-1] == '\n' {
		return err
	}
	info, err := d.f.Stat()
	if err != nil {
		return err
	}
	whole := bytes.LastIndexByte(end, '\n') + 1
	return d.f.Truncate(info.Size() - int64(len(end)-whole))
}

// recall notes the last records of this file, and those of the last files beside it whose names begin with its name: as
// many as a batch has.
func (d *File) recall() error {
	d.found, d.wrote = make(map[string]bool), make(map[string]bool)
	if _, err := d.recallOf(d.f); err != nil {
		return err
	}
	entries, err := os.ReadDir(filepath.Dir(d.path))
	if err != nil {
		return err
	}
	var others []os.FileInfo
	for _, e := range entries {
		name := e.Name()
		info, err := e.Info()
		if err == nil && info.Mode().IsRegular() && name != filepath.Base(d.path) &&
			strings.HasPrefix(name, filepath.Base(d.path)) {
			others = append(others, info)
		}
	}
	slices.SortFunc(others, func(a, b os.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	seen := 0
	for _, info := range others {
		f, err := os.OpenFile(filepath.Join(filepath.Dir(d.path), info.Name()), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		lines, err := d.recallOf(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		if seen += lines; seen >= batch || lines > 0 && d.found[""] {
			return nil
		}
	}
	return nil
}

// recallOf returns the number of lines that it has seen. One without an id is of a compressed file, and all files
// before that are compressed too.
func (d *File) recallOf(f *os.File) (seen int, err error) {
	end, err := readTail(f)
	lines := slices.Collect(bytes.Lines(end))
	for _, line := range lines[max(0, len(lines)-2*batch):] {
		if bytes.HasSuffix(line, []byte("\n")) {
			d.found[idOf(line)] = true
		}
	}
	return bytes.Count(end, []byte("\n")), err
}

func (d *File) append(records []ledger.Export) error {
	size := 0
	for _, r := range records {
		size += len(r.Record) + len(r.Artifacts) + 1<<10 // what a format adds
	}
	lines := make([]byte, 0, size)
	for _, r := range records {
		if d.found[r.ID] || d.wrote[r.ID] {
			continue
		}
		var err error
		if lines, err = d.format(lines, r); err != nil {
			return fmt.Errorf("record %s: %w", r.ID, err)
		}
		lines = append(lines, '\n')
	}
	if _, err := d.f.Write(lines); err != nil {
		return err
	}
	if err := d.f.Sync(); err != nil {
		return err
	}
	if len(d.wrote) > 8*batch { // records that were not reported as exported come again soon
		clear(d.wrote)
	}
	for _, r := range records {
		d.wrote[r.ID] = true
	}
	return nil
}

func readTail(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	from := max(0, info.Size()-tail)
	return io.ReadAll(io.NewSectionReader(f, from, info.Size()-from))
}
