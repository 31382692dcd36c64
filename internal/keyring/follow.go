package keyring

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/await"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/refusal"
)

const (
	registryPause  = 250 * time.Millisecond // after an error
	followTimeout  = 3 * time.Second        // of a request that does not wait
	certifyTimeout = 30 * time.Second       // of the signatures for one process, while the others wait
	renewalPeriod  = 10 * time.Minute       // between checks of certificates whose keys do not change
)

// CertifyContinuously certifies the keys of each process whenever that is due, until ctx ends. It certifies only new
// versions of the keys that a process had at first (as): an attacker in a process could otherwise get every role
// certified. A process that does not answer keeps its certificates. Each error is logged once.
func (r *Registry) CertifyContinuously(ctx context.Context, endpoints []string, as map[string][]string, say Declaration,
	log *zap.Logger) {
	var turn sync.Mutex // one process is certified at a time
	var all sync.WaitGroup
	for _, at := range endpoints {
		all.Go(func() {
			state, checked := "", time.Time{}
			try := func() error {
				next, err := awaitChange(ctx, at, state)
				if err == nil && (next != state || time.Since(checked) >= renewalPeriod) {
					checked = time.Now()
					turn.Lock()
					err = r.CertifyDue(ctx, at, as, say, log)
					turn.Unlock()
				}
				if state = next; err != nil {
					state = "" // the next request waits for nothing
				}
				return err
			}
			of := log.With(zap.String("from", at))
			for await.Success(ctx, of, registryPause, "a process's keys are not certified anew", try) == nil {
			}
		})
	}
	all.Wait()
}

// awaitChange waits some seconds for a process's keys to leave the state known, and returns the new state.
func awaitChange(ctx context.Context, at, known string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, daemon.RolesWait+followTimeout)
	defer cancel()
	var now daemon.RolesState
	err := admin.Get(ctx, at, "/v1/roles/state?unlike="+known, &now)
	return now.State, err
}

// CertifyDue certifies the keys of one process, and of those that share one with it, if that is due. as is their first
// state: see [Published].
func (r *Registry) CertifyDue(ctx context.Context, at string, as map[string][]string, say Declaration,
	log *zap.Logger) error {
	p, err := r.due(ctx, sharing(at, as), as)
	if err != nil || p == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, certifyTimeout)
	defer cancel()
	done, err := r.Certify(ctx, *p, say)
	if done.Certified+done.Dropped > 0 {
		log.Info("keys certified", zap.String("from", at), zap.Int("versions", done.Certified),
			zap.Int("left", done.Left), zap.Int("waiting", done.Waiting))
	}
	return err
}

// sharing returns the processes that have a key together with the one at an endpoint, which comes first.
func sharing(at string, as map[string][]string) []string {
	all := []string{at}
	for other, signs := range as {
		if other != at && slices.ContainsFunc(signs, func(s string) bool { return slices.Contains(as[at], s) }) {
			all = append(all, other)
		}
	}
	return all
}

// due returns what processes publish, or nil if nothing has to be certified.
func (r *Registry) due(ctx context.Context, from []string, as map[string][]string) (*Published, error) {
	ctx, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	var roles []daemon.RoleDocument
	for _, at := range from {
		of, err := ReadRoles(ctx, at)
		if err == nil {
			err = sameRoles(at, as[at], signsAs(of))
		}
		if err != nil {
			return nil, err
		}
		roles = append(roles, of...)
	}
	due := false
	found, err := r.Edit(ctx, func(e *Edit) (err error) {
		due, err = e.Needed(roles)
		return err
	})
	switch {
	case due: // also if other versions are disputed, or wait
	case err == nil && found.Waiting > 0:
		return nil, fmt.Errorf("%d new versions wait for a certificate, because earlier versions of "+
			"their keys fill the trust bundle: rotate less often, or retire versions", found.Waiting)
	default:
		return nil, err
	}
	p, err := ReadPublished(ctx, from)
	for _, at := range from {
		if err == nil {
			err = sameRoles(at, as[at], p.RolesByEndpoint[at]) // the second answer may differ from the first
		}
	}
	return &p, err
}

func sameRoles(at string, as, now []string) error {
	if !slices.Equal(as, now) {
		return refusal.New("roles_changed",
			"the process at %s was certified to sign %s, but now wants to sign %s: it gets no more certificates",
			at, strings.Join(as, ", "), strings.Join(now, ", "))
	}
	return nil
}
