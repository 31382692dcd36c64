package bootstrap

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/vault/api"
)

// SecretID is a role's secret id, which Vault names by its accessor.
type SecretID struct {
	Process  string    `json:"process"`
	Purpose  string    `json:"purpose"`
	Accessor string    `json:"accessor"`
	Created  time.Time `json:"created"`
	Pruned   bool      `json:"pruned"` // it is destroyed
}

const maxSecretIDs = 1000

// SecretIDs lists the secret ids of all roles, each with the newest first.
func SecretIDs(ctx context.Context, c *api.Client, o Options) ([]SecretID, error) {
	if o.AppRole == nil {
		return nil, fmt.Errorf("only AppRole has secret ids")
	}
	out := []SecretID{}
	for _, r := range o.roles() {
		names, err := accessors(ctx, c, o.AppRole.path(r))
		if err != nil {
			return nil, err
		}
		if len(names) > maxSecretIDs {
			return nil, fmt.Errorf("%s has %d secret ids; at most %d are read: destroy the unused ones",
				o.AppRole.path(r), len(names), maxSecretIDs)
		}
		var ids []SecretID
		for _, accessor := range names {
			created, err := createdAt(ctx, c, o.AppRole.path(r), accessor)
			if err != nil {
				return nil, err
			}
			ids = append(ids, SecretID{Process: r.Process, Purpose: r.Purpose, Accessor: accessor, Created: created})
		}
		slices.SortFunc(ids, func(a, b SecretID) int {
			return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.Accessor, b.Accessor))
		})
		out = append(out, ids...)
	}
	return out, nil
}

// Prune destroys the secret ids from before a time, except the newest of a role, and marks them.
func Prune(ctx context.Context, c *api.Client, o Options, ids []SecretID, before time.Time) error {
	newest := make(map[string]bool) // by purpose: the newest was seen
	for i := range ids {
		id := &ids[i]
		old := newest[id.Purpose] && id.Created.Before(before)
		newest[id.Purpose] = true
		if !old {
			continue
		}
		at := o.AppRole.path(Role{Purpose: id.Purpose}) + "/secret-id-accessor/destroy"
		if _, err := c.Logical().WriteWithContext(ctx, at, map[string]any{"secret_id_accessor": id.Accessor}); err != nil {
			return failed("destroy a secret id of "+id.Purpose, err)
		}
		id.Pruned = true
	}
	return nil
}

func accessors(ctx context.Context, c *api.Client, path string) ([]string, error) {
	secret, err := c.Logical().ListWithContext(ctx, path+"/secret-id")
	if err != nil || secret == nil {
		return nil, failed("list "+path+"/secret-id", err)
	}
	var data struct{ Keys []string }
	raw, err := json.Marshal(secret.Data)
	if err == nil {
		err = json.Unmarshal(raw, &data)
	}
	return data.Keys, failed("read the list of "+path+"/secret-id", err)
}

func createdAt(ctx context.Context, c *api.Client, path, accessor string) (time.Time, error) {
	secret, err := c.Logical().WriteWithContext(ctx, path+"/secret-id-accessor/lookup",
		map[string]any{"secret_id_accessor": accessor})
	if err != nil {
		return time.Time{}, failed("look a secret id up at "+path, err)
	}
	at, err := text(secret, "creation_time")
	if err != nil {
		return time.Time{}, err
	}
	created, err := time.Parse(time.RFC3339Nano, at)
	return created, failed("read when a secret id of "+path+" was made", err)
}
