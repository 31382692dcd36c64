package main

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cloudflare/circl/sign/ed25519"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/custody/vault"
)

// floors are what no mediator gets below, measured in the same run. Durations are medians in µs.
type floors struct {
	Sign          float64 `json:"ed25519_sign_us"`
	Verify        float64 `json:"ed25519_verify_us"`
	Fdatasync     float64 `json:"fdatasync_us"`
	Transit       float64 `json:"vault_transit_signature_us,omitempty"`
	TransitPerSec float64 `json:"vault_transit_batched_signatures_per_s,omitempty"`
}

// signed is what the signatures and verifications of one post take, in µs.
func (f floors) signed() float64 { return signatures*f.Sign + verifications*f.Verify }

func (b *stand) floors(ctx context.Context) (floors, error) {
	var f floors
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return f, err
	}
	message := []byte(strings.Repeat("m", 800))
	signature := ed25519.Sign(private, message)
	f.Sign = median(2000, func() error { ed25519.Sign(private, message); return nil })
	f.Verify = median(2000, func() error { ed25519.Verify(public, message, signature); return nil })
	file, err := os.Create(filepath.Join(b.dir, "sync"))
	if err != nil {
		return f, err
	}
	defer file.Close()
	page := make([]byte, 4096)
	f.Fdatasync = median(200, func() error {
		if _, err := file.Write(page); err != nil {
			return err
		}
		return unix.Fdatasync(int(file.Fd()))
	})
	if b.vault != nil {
		err = b.transit(ctx, &f, message)
	}
	return f, err
}

// transit measures Vault through the mediator's own client, with a key that no other cell uses meanwhile.
func (b *stand) transit(ctx context.Context, f *floors, message []byte) error {
	server, err := vault.NewServer(vault.Options{Address: b.vault.Address, CAFile: b.vault.CAFile, Log: zap.NewNop(), Now: time.Now})
	if err != nil {
		return err
	}
	defer server.Close()
	key, err := server.Key(ctx, "runtime-key", &vault.TokenFile{Path: filepath.Join(b.dir, "token")})
	if err != nil {
		return err
	}
	version, err := key.Current(ctx)
	if err != nil {
		return err
	}
	sign := func() error { _, err := version.Sign(ctx, message); return err }
	f.Transit = median(300, sign)
	var n atomic.Int64
	var wait sync.WaitGroup
	began := time.Now()
	for range 256 {
		wait.Go(func() {
			for time.Since(began) < 2*time.Second {
				if sign() == nil {
					n.Add(1)
				}
			}
		})
	}
	wait.Wait()
	f.TransitPerSec = float64(n.Load()) / time.Since(began).Seconds()
	return nil
}

// median returns the median duration of n calls, in µs; one that fails takes forever.
func median(n int, do func() error) float64 {
	took := make([]time.Duration, n)
	for i := range took {
		began := time.Now()
		if err := do(); err != nil {
			took[i] = time.Hour
			continue
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return micros(took[n/2])
}

func describeMachine() string {
	raw, _ := os.ReadFile("/proc/cpuinfo")
	model := "an unknown processor"
	for line := range strings.Lines(string(raw)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	return runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ", " + model
}
