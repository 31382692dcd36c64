package keyring

import (
	"context"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/daemon"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/refusal"
)

// registryPoll is how often the registry asks a process for its keys, and followTimeout bounds one request.
const registryPoll, followTimeout = 250 * time.Millisecond, 3 * time.Second

// CertifyContinuously certifies what each process publishes whenever that is due, until ctx ends. It certifies new versions of the
// keys that each process was certified for at first (as), and no other keys: an attacker who takes a process over could
// otherwise have it certified for every role. A process that does not answer keeps its certificates. Watch logs each
// error once.
func (r *Registry) CertifyContinuously(ctx context.Context, endpoints []string, as map[string][]string, say Declaration, log *zap.Logger) {
	said := make(map[string]string)
	for range every.Tick(ctx, registryPoll) {
		for _, at := range endpoints {
			within, cancel := context.WithTimeout(ctx, followTimeout)
			err := r.CertifyDue(within, at, as[at], say, log)
			cancel()
			before, failing := said[at]
			switch {
			case err == nil:
				delete(said, at)
			case ctx.Err() == nil && (!failing || before != daemon.CodeOf(err)):
				said[at] = daemon.CodeOf(err)
				log.Error("a process's keys are not certified anew", zap.String("from", at), zap.Error(err))
			}
		}
	}
}

// CertifyDue certifies what one process publishes, if that is due. certifiedAs is what the process was certified for at
// first; see [Published].
func (r *Registry) CertifyDue(ctx context.Context, at string, certifiedAs []string, say Declaration, log *zap.Logger) error {
	roles, err := ReadRoles(ctx, []string{at})
	if err == nil {
		err = sameRoles(at, certifiedAs, signsAs(roles))
	}
	if err != nil {
		return err
	}
	due := false
	err = r.editBundle(func(e *bundleEdit) error {
		left, err := e.withoutRetired(roles)
		due = err == nil && e.needsRenewal(left)
		return err
	})
	if err != nil || !due {
		return err
	}
	p, err := ReadPublished(ctx, []string{at})
	if err == nil {
		err = sameRoles(at, certifiedAs, p.RolesByEndpoint[at]) // the second answer may differ from the first
	}
	if err != nil {
		return err
	}
	return r.editBundle(func(e *bundleEdit) error {
		done, err := e.certify(ctx, p, say)
		if err == nil {
			log.Info("keys certified", zap.String("from", at), zap.Int("versions", done.Certified))
		}
		return err
	})
}

// sameRoles refuses a process that publishes other roles, issuers or keys than those that it was certified for.
func sameRoles(at string, as, now []string) error {
	if !slices.Equal(as, now) {
		return refusal.New("roles_changed", "the process at %s was certified to sign %s, and wants to sign %s: nothing more of it is certified",
			at, strings.Join(as, ", "), strings.Join(now, ", "))
	}
	return nil
}
