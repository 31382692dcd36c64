package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// Bounds on files, in bytes.
const (
	maxInput = 16 << 20 // that a command is given to judge
	maxFile  = 10 << 20 // of configuration, trust and keys: more than the largest trust bundle
)

// readInput reads a file that a command is given, or standard input for "-".
func readInput(c *cobra.Command, path string) ([]byte, error) {
	if path == "-" {
		return readBounded(c.InOrStdin(), "standard input", maxInput)
	}
	return readUpTo(path, maxInput)
}

// readFile reads a file that belongs to the mediator's own setup.
func readFile(path string) ([]byte, error) { return readUpTo(path, maxFile) }

func readUpTo(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readBounded(f, path, limit)
}

func readBounded(r io.Reader, name string, limit int64) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(raw)) > limit {
		err = fmt.Errorf("%s is larger than the %d bytes that are read", name, limit)
	}
	return raw, err
}
