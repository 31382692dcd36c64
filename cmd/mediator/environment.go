package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/actionproof/mediator/evidence"
)

// measure notes what this process runs with this configuration.
func (s *sidecar) measure() (err error) {
	s.environmentHash, err = environmentHash(s.raw)
	return err
}

// environmentHash measures what this process runs: its own binary and its configuration. It is what requiredEnvironmentHash in
// the manifest pins; mediator deployment environment prints it.
func environmentHash(config []byte) (string, error) {
	binary, err := binaryHash()
	if err != nil {
		return "", fmt.Errorf("measure the environment: %w", err)
	}
	return evidence.HashValue(map[string]string{"binary": binary, "config": evidence.HashBytes(config)})
}

// binaryHash hashes the program that runs, once: the kernel lets nobody write to it while it does, and another one in its place is another
// file.
var binaryHash = sync.OnceValues(func() (string, error) {
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", err
	}
	defer exe.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, exe); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
})
