package keyring

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/refusal"
)

// Owner rotates and retires keys in their custody. It is an interface so that this package depends on no custody.
type Owner interface {
	// Rotate gives a key a new version and returns its number.
	Rotate(ctx context.Context, key string) (version int, err error)
	// Retire retires the versions of a key before oldest.
	Retire(ctx context.Context, key string, oldest int) error
}

// Rotator rotates keys of running processes, and retires the earlier versions once no process signs with them.
type Rotator struct {
	Owner Owner
	From  []string // endpoints of every process that signs with the keys
	// RetireAfter is the time from when all processes sign with a new version to the retirement of earlier ones.
	RetireAfter time.Duration
	// CertifiedWithin bounds the wait for the processes to sign with the new version.
	CertifiedWithin time.Duration
	// Waiting is called when RetireAfter begins.
	Waiting func()
	// Done is called after each change.
	Done func(Rotated)
}

// Rotated is one change of a key: a new version, or the retirement of the versions before Oldest.
type Rotated struct {
	Key     string `json:"key"`
	Version int    `json:"version,omitempty"` // the new version
	Oldest  int    `json:"oldest,omitempty"`  // the oldest version that is kept
}

// Rotate gives each key a new version, and goes on after a key that fails. It returns the new versions.
func (r *Rotator) Rotate(ctx context.Context, keys []string) (versions map[string]int, err error) {
	versions = make(map[string]int)
	for _, key := range keys {
		version, bad := r.Owner.Rotate(ctx, key)
		if bad != nil {
			err = errors.Join(err, bad)
			continue
		}
		versions[key] = version
		r.Done(Rotated{Key: key, Version: version})
	}
	return versions, err
}

// Retire retires the versions of a key before oldest at once.
func (r *Rotator) Retire(ctx context.Context, key string, oldest int) error {
	err := r.Owner.Retire(ctx, key, oldest)
	if err == nil {
		r.Done(Rotated{Key: key, Oldest: oldest})
	}
	return err
}

// RetireEarlier waits until every process signs with the given version of each key or a later one, waits RetireAfter,
// asks again, and retires the earlier versions. A key keeps its versions if a process does not sign with the new one,
// or does not answer.
func (r *Rotator) RetireEarlier(ctx context.Context, versions map[string]int) error {
	if len(versions) == 0 {
		return nil
	}
	behind := r.awaitSignatures(ctx, versions)
	if len(behind) < len(versions) {
		r.Waiting()
		if err := every.Sleep(ctx, r.RetireAfter); err != nil {
			return err
		}
		maps.Copy(behind, r.signBefore(ctx, versions))
	}
	var err error
	for _, key := range slices.Sorted(maps.Keys(versions)) {
		if why := behind[key]; why != "" {
			err = errors.Join(err,
				refusal.New("version_unused", "the versions of %s before %d are not retired: %s", key, versions[key],
					why))
		} else {
			err = errors.Join(err, r.Retire(ctx, key, versions[key]))
		}
	}
	return err
}

const signsPoll = time.Second

func (r *Rotator) awaitSignatures(ctx context.Context, versions map[string]int) (behind map[string]string) {
	within, cancel := context.WithTimeout(ctx, r.CertifiedWithin)
	defer cancel()
	for {
		if behind = r.signBefore(ctx, versions); len(behind) == 0 || within.Err() != nil {
			return behind
		}
		_ = every.Sleep(within, signsPoll)
	}
}

// signBefore returns the keys for which not every process is known to sign with the given version or a later one, and
// why.
func (r *Rotator) signBefore(ctx context.Context, versions map[string]int) map[string]string {
	behind, seen := make(map[string]string), make(map[string]bool)
	for _, at := range r.From {
		within, cancel := context.WithTimeout(ctx, followTimeout)
		roles, err := ReadRoles(within, at)
		cancel()
		if err != nil {
			for key := range versions { // any of them may be a key of this process
				behind[key] = "the process at " + at + " does not say what it signs with: " + err.Error()
			}
		}
		for _, role := range roles {
			key := role.KeyName()
			seen[key] = true
			switch {
			case role.Signs == "":
				behind[key] = "no version of it signs in the process at " + at
			case evidence.KeyVersion(role.Signs) < versions[key]:
				behind[key] = "the process at " + at + " signs with " + role.Signs
			}
		}
	}
	for key := range versions {
		if !seen[key] {
			behind[key] = "no process of those that were asked signs with it"
		}
	}
	return behind
}

// KeysOf returns the names of the readable keys that roles sign with.
func KeysOf(roles []daemon.RoleDocument) []string {
	return slices.Sorted(maps.Keys(keyNames(roles)))
}
