package vault

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/look"
)

// Observe reports what Vault says of the key and of the role's token.
func (k *Key) Observe(ctx context.Context, maxAge time.Duration) []look.Observation {
	_ = k.within(ctx, maxAge) // custodyLook reports the result
	return []look.Observation{k.custodyLook(), k.apartLook(ctx, maxAge)}
}

func (k *Key) custodyLook() look.Observation {
	s, err := k.known()
	if custody.IsUnfit(err) {
		return look.New(look.Custody, look.Contradicts, "Vault was asked: "+err.Error()+".")
	}
	if err != nil {
		return look.New(look.Custody, look.NotObserved, "Vault could not be asked about the key "+k.name+".")
	}
	var against []string
	for what, is := range map[string]bool{"can be exported": s.flags.Exportable,
		"can be had as a plaintext backup": s.flags.PlaintextBackup,
		"can be deleted and made again":    s.flags.Deletable} {
		if is {
			against = append(against, what)
		}
	}
	if len(against) > 0 {
		slices.Sort(against)
		return look.New(look.Custody, look.Contradicts,
			fmt.Sprintf("Vault says that the key %s %s.", k.name, strings.Join(against, ", ")))
	}
	return look.New(look.Custody, look.Holds, "Vault says that the key "+k.name+
		" is Ed25519, and that it can be neither exported, nor backed up in plaintext, nor deleted.")
}

func (k *Key) apartLook(ctx context.Context, maxAge time.Duration) look.Observation {
	return k.session.apart(ctx, maxAge, "sign with it", []string{k.path("keys"), k.path("sign")}, k.forbidden())
}

// apart checks that the token can only read the first of own and write the second, and cannot use forbidden. It repeats
// a good result of the same token that is younger than maxAge. All callers share one question, which goes on when a
// caller leaves: on a busy Vault, each question that is broken off would cost its whole work again.
func (e *session) apart(ctx context.Context, maxAge time.Duration, purpose string, own,
	forbidden []string) look.Observation {
	asked, token := e.server.o.Now(), e.client.Token()
	if good := e.good.Load(); good != nil && good.token == token && asked.Sub(good.at) < maxAge {
		return good.seen
	}
	done := e.looks.DoChan("", func() (any, error) {
		asked, token := e.server.o.Now(), e.client.Token()
		seen := e.lookApart(e.ctx, purpose, own, forbidden)
		switch seen.Result {
		case look.Holds:
			e.good.Store(&goodToken{token: token, at: asked, seen: seen})
		case look.Contradicts:
			e.good.Store(nil) // an earlier good result must not be repeated
		}
		return seen, nil
	})
	select {
	case made := <-done:
		return made.Val.(look.Observation)
	case <-ctx.Done():
		return look.New(look.Apart, look.NotObserved,
			fmt.Sprintf("Vault has not said yet what the token for the %s may do.", e.name))
	}
}

type goodToken struct {
	token string
	at    time.Time
	seen  look.Observation
}

func (e *session) lookApart(ctx context.Context, purpose string, own, forbidden []string) look.Observation {
	ctx, cancel := context.WithTimeout(ctx, patientTimeout)
	defer cancel()
	token, err := e.token(ctx)
	var may []string
	if err == nil {
		may, err = e.capabilities(ctx, own, forbidden)
	}
	if err != nil {
		return look.New(look.Apart, look.NotObserved,
			fmt.Sprintf("Vault could not be asked what the token for the %s may do: %s.", e.name, why(err)))
	}
	if slices.Contains(token.Policies, "root") {
		may = append(may, "everything: it is a root token")
	}
	if len(may) > 0 {
		return look.New(look.Apart, look.Contradicts,
			fmt.Sprintf("The token for the %s may do more than %s: %s.", e.name, purpose, strings.Join(may, "; ")))
	}
	return look.New(look.Apart, look.Holds,
		fmt.Sprintf("Vault says that the token for the %s (policies %s, good for %d s) may use no other "+
			"key and change none.", e.name, strings.Join(token.Policies, ", "), token.TTL))
}

// signed notes the result of a signature. After a refused one, the next question is what the token may do now.
func (e *session) signed(err error) {
	switch {
	case err == nil:
		e.denied.Store(false)
	case isDenied(err):
		e.denied.Store(true)
		e.good.Store(nil)
	}
}

type tokenInfo struct {
	Policies []string `json:"policies"`
	Identity []string `json:"identity_policies"`
	TTL      int64    `json:"ttl"`
}

func (e *session) token(ctx context.Context) (tokenInfo, error) {
	var info tokenInfo
	secret, err := e.read(ctx, "auth/token/lookup-self")
	if err == nil {
		err = decode(secret, &info)
	}
	info.Policies = append(info.Policies, info.Identity...)
	return info, err
}

func (k *Key) forbidden() []string {
	out := k.session.forbidden(k.others)
	for _, what := range []string{"export/signing-key", "backup", "restore"} {
		out = append(out, k.path(what))
	}
	for _, what := range []string{"config", "rotate", "trim", "import", "import_version", "soft-delete"} {
		out = append(out, k.path("keys")+"/"+what)
	}
	for _, other := range append([]string{k.name}, k.others...) { // wrapped for another key
		out = append(out, k.path("byok-export/"+other))
	}
	return out
}

// Other keys, logins, and Vault itself. Only a wildcard policy allows the random names.
func (e *session) forbidden(keys []string) []string {
	out := []string{"auth/token/create", "auth/token/create-orphan", "identity/entity", "identity/group",
		"sys/storage/raft/snapshot"}
	for _, what := range []string{"sys/policies/acl/", "sys/policy/", "sys/auth/", "sys/mounts/", "sys/audit/",
		"sys/raw/", "auth/token/create/", "auth/token/roles/", "identity/entity/id/", "identity/entity/name/",
		"identity/group/id/"} {
		out = append(out, what+rand.Text())
	}
	out = append(out, e.auth.roles()...)
	mount := e.server.o.Mount
	for _, key := range append([]string{rand.Text()}, keys...) {
		for _, what := range []string{"sign/", "keys/", "export/signing-key/", "backup/"} {
			out = append(out, mount+"/"+what+key)
		}
		for _, what := range []string{"config", "rotate", "trim"} {
			out = append(out, mount+"/keys/"+key+"/"+what)
		}
	}
	return out
}

func (e *session) capabilities(ctx context.Context, own, forbidden []string) ([]string, error) {
	paths := slices.Concat(own, forbidden)
	secret, err := e.write(ctx, "sys/capabilities-self", map[string]any{"paths": paths})
	if err != nil {
		return nil, err
	}
	var answer map[string]json.RawMessage
	if err := decode(secret, &answer); err != nil {
		return nil, err
	}
	var may []string
	for i, path := range paths {
		var has []string
		if err := json.Unmarshal(answer[path], &has); err != nil || len(has) == 0 {
			return nil, fmt.Errorf("no capabilities of %s in the answer", path)
		}
		if i == 1 && len(own) > 1 { // more rights on it allow no more
			e.denied.Store(!slices.Contains(has, "update") && !slices.Contains(has, "root"))
			continue
		}
		has = slices.DeleteFunc(has, func(c string) bool { return c == "deny" || i < len(own) && c == "read" })
		if len(has) > 0 {
			may = append(may, strings.Join(has, " and ")+" on "+path)
		}
	}
	return may, nil
}
