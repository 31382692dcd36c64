package registrar

import (
	"context"
	"reflect"
	"slices"
	"strings"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/process/daemon"
)

const maxRoles, maxVersions = 8, 64

// allowed refuses roles, issuers and keys that the rule does not allow. A key name with a slash belongs to one process:
// the one whose id has the same last segment. Processes share all other keys.
func (r *Rules) allowed(rule evidence.RegistrarRule, c Caller, roles []daemon.RoleDocument) error {
	strict := r.deployments[rule.DeploymentHash].strict
	if len(roles) == 0 || len(roles) > maxRoles {
		return refuse("malformed", "query_malformed", "%s publishes %d roles; it must publish 1 to %d", c.ID,
			len(roles), maxRoles)
	}
	for _, role := range roles {
		want := strict.Expected(role.Purpose)
		switch {
		case !slices.Contains(evidence.RolePurposes(rule.Role), role.Purpose):
			return Refuse("role", "the rule for %s allows the role %s, and no key for %.80q", c.ID, rule.Role,
				role.Purpose)
		case role.Unread != nil || len(role.Keys) == 0 || len(role.Keys) > maxVersions:
			return refuse("key", "custody_unavailable",
				"%s has %d readable versions of its key for %s; it must have 1 to %d", c.ID,
				len(role.Keys), role.Purpose, maxVersions)
		case !slices.Contains(want.Issuers, role.Issuer):
			return Refuse("key", "the manifest does not allow the issuer %.80q of %s (%s)", role.Issuer, c.ID,
				role.Purpose)
		}
		for _, key := range role.Keys {
			name := evidence.KeyName(key.KeyID)
			base, own, belongs := strings.Cut(name, "/")
			if belongs && own != lastSegment(c.ID) {
				return Refuse("key", "the key %.200q does not belong to process %s", key.KeyID, c.ID)
			}
			if name != role.KeyName() {
				return Refuse("key", "%s publishes the keys %.200q and %.200q for the one role %s", c.ID, name,
					role.KeyName(), role.Purpose)
			}
			if like := r.endsLike(rule, c.ID); belongs && like != "" {
				return Refuse("key",
					"the key %.200q might also be that of another process, by the rule for %s: let the ids of "+
						"processes with keys in memory end differently", key.KeyID, like)
			}
			if !evidence.MatchKeyID(want.KeyIDs, key.KeyID) && !(belongs && slices.Contains(want.KeyIDs, base+"/*")) {
				return Refuse("key", "the manifest does not allow the key %.200q of %s (%s)", key.KeyID, c.ID,
					role.Purpose)
			}
		}
	}
	return nil
}

// endsLike names a rule of the same role for other processes whose ids may end like id, or nothing. The UID of a pod is
// its own.
func (r *Rules) endsLike(rule evidence.RegistrarRule, id string) string {
	if rule.ID == "" && rule.Role == evidence.RoleSidecar {
		return ""
	}
	path, own := strings.TrimSuffix(id, "/"+lastSegment(id)), lastSegment(id)
	for _, o := range r.Rules {
		last := lastSegment(o.ID)
		switch {
		case o.Role != rule.Role, o.ID == "" && o.Role == evidence.RoleSidecar:
		case o.ID == "" && o.ServiceAccount == own && (rule.ID != "" || o.Namespace != rule.Namespace):
			return o.Namespace + "/" + o.ServiceAccount
		case o.ID != "" && (last == own || last == "*") && strings.TrimSuffix(o.ID, "/"+last) != path:
			return o.ID
		}
	}
	return ""
}

// shared replaces the versions of keys that processes share by those in the custody: a process that was taken over has
// no say in others' keys. It refuses a version that the custody does not have, or has with another public key. Versions
// before the custody's oldest were retired, which the process may not know yet.
func (r *Registrar) shared(ctx context.Context, c Caller, roles []daemon.RoleDocument) error {
	for i, role := range roles {
		name := role.KeyName()
		if strings.Contains(name, "/") {
			continue
		}
		if r.o.Custody == nil {
			return Refuse("key",
				"the key %.200q of %s has a name that processes share, and the registrar cannot read it in "+
					"their custody: name a custody with this key in registrar.yaml, or keep the key in memory as "+
					"%[1]s/%[3]s", name,
				c.ID, lastSegment(c.ID))
		}
		versions, properties, err := r.o.Custody.Public(ctx, name)
		if err != nil {
			return err
		}
		var keys []jose.JSONWebKey
		for _, v := range versions {
			keys = append(keys, custody.JWK(v))
		}
		for _, key := range role.Keys {
			at := slices.IndexFunc(keys, func(k jose.JSONWebKey) bool { return k.KeyID == key.KeyID })
			retired := at < 0 && evidence.KeyVersion(key.KeyID) < evidence.KeyVersion(keys[0].KeyID)
			if !retired && (at < 0 || !reflect.DeepEqual(keys[at].Key, key.Key)) {
				return Refuse("key",
					"%s publishes %.200q, which is not the key of that version in the custody: the process may be "+
						"taken over", c.ID, key.KeyID)
			}
		}
		roles[i].Keys, roles[i].KeyCustody, roles[i].KeyExportable, roles[i].Observed = keys, properties.Custody,
			properties.Exportable, properties.Observed
	}
	return nil
}

func lastSegment(id string) string { return id[strings.LastIndexByte(id, '/')+1:] }
