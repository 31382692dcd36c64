package keyring

import (
	"crypto/ed25519"
	"maps"
	"slices"
	"strings"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/refusal"
)

// A key version needs a certificate while it signs, and until its signatures have expired. Otherwise each rotation
// would make the bundle larger.
const (
	// A version gets no certificate once a later one has been certified for superseded, or supersededMany if the key
	// has more than manyVersions: no signature of a post is valid for so long.
	superseded, supersededMany = time.Hour, 15 * time.Minute
	manyVersions               = 16
	// maxVersions bounds the certified versions of one key. Beyond it the newest version waits.
	maxVersions = 64
)

func shareOf(keys int) int {
	return max(1, min(maxVersions, evidence.MaxCertificates*3/4/max(1, keys)))
}

// wanted returns roles with the key versions that need a certificate: neither retired nor superseded. Of many versions
// it also drops those that were never certified, and so have signed nothing, except the newest and the signing one. It
// counts the newest versions that have to wait.
func (e *Edit) wanted(roles []daemon.RoleDocument) ([]daemon.RoleDocument, error) {
	keys := keyNames(roles)
	maps.Copy(keys, e.KeyNames())
	wanted := e.agreed(roles)
	e.done.Waiting = 0
	for i, r := range wanted {
		if len(r.Keys) == 0 {
			continue
		}
		newest := r.Keys[len(r.Keys)-1].KeyID
		seen := make(map[string]bool)
		left := slices.DeleteFunc(slices.Clone(e.withoutSuperseded(r.Keys, superseded)), func(k jose.JSONWebKey) bool {
			_, retired := e.trust.Retired(k.KeyID)
			again := seen[k.KeyID]
			seen[k.KeyID] = true
			return retired || again
		})
		if len(left) == 0 {
			in, _ := e.trust.Retired(newest)
			return nil,
				refusal.New("key_retired",
					"the key of %s, %s, was retired: the current version is %d. Rotate the key past that "+
						"version; or, if it is "+
						"another key with the same name, move %s away (%s), certify every process and the "+
						"deployment again, and restart the processes", r.Purpose, newest, in, e.Bundle, whereTo)
		}
		if len(left) > manyVersions {
			left = slices.DeleteFunc(e.withoutSuperseded(left, supersededMany), func(k jose.JSONWebKey) bool {
				_, has := e.certified[k.KeyID]
				return !has && k.KeyID != newest && k.KeyID != r.Signs
			})
		}
		for over := len(left) - shareOf(len(keys)); over > 0; over-- {
			// a revoked version is refused anyway
			drop := slices.IndexFunc(left, func(k jose.JSONWebKey) bool { return e.certified[k.KeyID].Revoked })
			if _, has := e.certified[newest]; drop < 0 && !has {
				drop = len(left) - 1
				e.done.Waiting++
			}
			if drop < 0 {
				break
			}
			left = slices.Delete(left, drop, drop+1)
		}
		wanted[i].Keys = left
	}
	return wanted, nil
}

// agreed returns roles with the versions that all processes with the key publish alike, and those that are certified.
// One process alone that was taken over gets no version of a shared key certified: the others do not know it.
func (e *Edit) agreed(roles []daemon.RoleDocument) []daemon.RoleDocument {
	agreed := slices.Clone(roles)
	for i, r := range agreed {
		agreed[i].Keys = slices.DeleteFunc(slices.Clone(r.Keys), func(k jose.JSONWebKey) bool {
			public, _ := k.Key.(ed25519.PublicKey)
			if c, ok := e.certified[k.KeyID]; e.FromCustody || ok && string(public) == string(c.Public) {
				return false
			}
			disputed := slices.ContainsFunc(roles, func(o daemon.RoleDocument) bool {
				return o.KeyName() == r.KeyName() && !slices.ContainsFunc(o.Keys, func(other jose.JSONWebKey) bool {
					return other.KeyID == k.KeyID && public.Equal(other.Key)
				})
			})
			if disputed && !slices.Contains(e.disputed, k.KeyID) {
				e.disputed = append(e.disputed, k.KeyID)
			}
			return disputed
		})
	}
	return agreed
}

func (e *Edit) disagreement() error {
	if len(e.disputed) == 0 {
		return nil
	}
	return refusal.New("roles_changed",
		"the processes that share a key do not agree on %s yet, so it gets no certificate: a rotation "+
			"takes some seconds to reach them all; if this lasts longer, an intruder may control one of them",
		strings.Join(e.disputed, ", "))
}

// withoutSuperseded returns the newest version that was certified at least this time ago, and the later ones.
func (e *Edit) withoutSuperseded(keys []jose.JSONWebKey, after time.Duration) []jose.JSONWebKey {
	for i, k := range slices.Backward(keys) {
		c, ok := e.certified[k.KeyID]
		if ok && !c.Revoked && !e.Options.Now().Before(time.Unix(c.Certificate.IssuedAt, 0).Add(after)) {
			return keys[i:]
		}
	}
	return keys
}
