package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/actionproof/mediator/internal/freeport"
)

// replicas are sidecars of one configuration, each in a folder of its own, which share a trigger service, a control plane and a ledger.
type replicas struct {
	target
	trigger, control []int // processes
}

// startReplicas starts n sidecars on the database that dsn names. The first one's folder is also that of the trigger service and the control
// plane. Root keys are made, and keys certified, by the commands that a security team uses.
func (b *stand) startReplicas(ctx context.Context, name, dsn string, n int) (*replicas, error) {
	hooks, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	first := filepath.Join(b.dir, name)
	dirs, err := b.prepareReplicas(first, hooks, dsn, n)
	if err != nil {
		return nil, err
	}
	r := &replicas{target: target{name: name, hooks: hooks}}
	start := func(dir, command, config string) (int, error) {
		cmd, err := b.runTo(filepath.Join(dir, command+".log"), "bin/mediator", command, "--config", filepath.Join(dir, config))
		if err != nil {
			return 0, err
		}
		r.pids = append(r.pids, cmd.Process.Pid)
		return cmd.Process.Pid, nil
	}
	trigger, err := start(first, "trigger", "trigger.yaml")
	if err != nil {
		return nil, err
	}
	control, err := start(first, "control", "control.yaml")
	if err != nil {
		return nil, err
	}
	r.trigger, r.control = []int{trigger}, []int{control}
	for _, dir := range dirs {
		pid, err := start(dir, "serve", "mediator.yaml")
		if err != nil {
			return nil, err
		}
		r.sidecar = append(r.sidecar, pid)
	}
	for i, dir := range dirs {
		if err := certify(ctx, first, dir); err != nil {
			return nil, err
		}
		if err := r.open(ctx, dir, first, hooks); err != nil {
			return nil, fmt.Errorf("sidecar %d: %w", i+1, err)
		}
		if r.proxies[i].Host, err = listening(ctx, filepath.Join(dir, "serve.log")); err != nil {
			return nil, err
		}
	}
	r.target = b.ahead(r.target)
	for i := range dirs {
		one := r.target
		one.proxies = one.proxies[i : i+1]
		if err := one.await(ctx); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// prepareReplicas writes the configuration, makes the root keys, and returns the sidecars' folders.
func (b *stand) prepareReplicas(first, hooks, dsn string, n int) ([]string, error) {
	d := deployment{more: "ledger: {postgres: {dsnFile: secrets/ledger-dsn}}\n"}
	if err := b.configure(first, "127.0.0.1:0", hooks, d); err != nil {
		return nil, err
	}
	for _, sub := range []string{"run", "state", "secrets", "events"} {
		if err := os.MkdirAll(filepath.Join(first, sub), 0o700); err != nil {
			return nil, err
		}
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret)
	err := errors.Join(
		os.WriteFile(filepath.Join(first, "secrets", "webhook"), []byte("whsec_"+base64.StdEncoding.EncodeToString(secret)), 0o600),
		os.WriteFile(filepath.Join(first, "secrets", "ledger-dsn"), []byte(dsn), 0o600))
	for _, name := range []string{"registry", "auditor"} {
		err = errors.Join(err, mediator("keys", "root", "--name", name, "--out", first))
	}
	if err := errors.Join(err, pin(first)); err != nil {
		return nil, err
	}
	dirs := []string{first}
	for i := 1; i < n; i++ {
		dir := fmt.Sprintf("%s-sidecar-%d", first, i+1)
		dirs = append(dirs, dir)
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "run"), 0o700), os.MkdirAll(filepath.Join(dir, "state"), 0o700)); err != nil {
			return nil, err
		}
		for _, shared := range []string{"mediator.yaml", "manifest.yaml", "policy.yaml", "secrets", "registry.jwk", "auditor.jwk", "run/trigger.sock", "run/control.sock"} {
			if err := os.Symlink(filepath.Join(first, shared), filepath.Join(dir, shared)); err != nil {
				return nil, err
			}
		}
	}
	return dirs, nil
}

// pin writes the hash of what the sidecars run into the manifest.
func pin(dir string) error {
	path := filepath.Join(dir, "manifest.yaml")
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	hash, err := exec.Command("bin/mediator", "deployment", "environment", "--config", filepath.Join(dir, "mediator.yaml")).Output()
	if err != nil {
		return fmt.Errorf("deployment environment: %w", err)
	}
	return os.WriteFile(path, bytes.ReplaceAll(raw, []byte(strings.Repeat("0", 64)), bytes.TrimSpace(hash)), 0o600)
}

// certify certifies the keys of one sidecar, and of what all share, in the bundle of its own: sidecars' keys have the same names.
func certify(ctx context.Context, first, dir string) error {
	bundle := filepath.Join(dir, "trust.json")
	err := mediator("deployment", "certify", filepath.Join(dir, "manifest.yaml"), "--auditor-key", filepath.Join(first, "auditor.key.jwk"), "--audience", "posting-api", "--bundle", bundle)
	if err != nil {
		return err
	}
	args := []string{"keys", "certify", "--registry-key", filepath.Join(first, "registry.key.jwk"), "--audience", "posting-api", "--bundle", bundle, "--not-accessible-to-agent", "--not-accessible-to-users"}
	for _, socket := range []string{filepath.Join(first, "run", "trigger.sock"), filepath.Join(first, "run", "control.sock"), filepath.Join(dir, "run", "serve.sock")} {
		args = append(args, "--from", "unix:"+socket)
	}
	return wait(ctx, func() error { return mediator(args...) }) // until all answer
}

// mediator runs one command to its end.
func mediator(args ...string) error {
	if out, err := exec.Command("bin/mediator", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("mediator %s %s: %w: %s", args[0], args[1], err, out)
	}
	return nil
}

var says = regexp.MustCompile(`"proxy":"(127\.0\.0\.1:\d+)"`)

// listening reads from the log of a sidecar where its proxy listens.
func listening(ctx context.Context, log string) (address string, err error) {
	err = wait(ctx, func() error {
		raw, err := os.ReadFile(log)
		if err != nil {
			return err
		}
		found := says.FindSubmatch(raw)
		if found == nil {
			return fmt.Errorf("%s does not say where the sidecar listens", log)
		}
		address = string(found[1])
		return nil
	})
	return address, err
}
