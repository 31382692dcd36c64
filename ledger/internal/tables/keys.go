package tables

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/actionproof/mediator/ledger"
)

func keyOf(token string) string {
	head, _, _ := strings.Cut(token, ".")
	raw, err := base64.RawURLEncoding.DecodeString(head)
	if err != nil {
		return ""
	}
	var h struct {
		KeyID string `json:"kid"`
	}
	_ = json.Unmarshal(raw, &h) // without a kid nothing is counted
	return h.KeyID
}

// KeySet names the keys that signed the artifacts of a record.
type KeySet struct {
	ID   int64  // a hash of the keys, above zero; 0 without keys
	Kids string // sorted, each once, as JSON
}

// KeySetOf returns the keys that signed artifacts, without those of challenge and capability, which are a gate's
// secrets.
func KeySetOf(artifacts []ledger.Artifact) KeySet {
	var kids []string
	for _, a := range artifacts {
		if kid := keyOf(a.Token); kid != "" && a.Name != "challenge" && a.Name != "capability" {
			kids = append(kids, kid)
		}
	}
	if len(kids) == 0 {
		return KeySet{}
	}
	slices.Sort(kids)
	raw, _ := json.Marshal(slices.Compact(kids)) // texts can be written
	sum := sha256.Sum256(raw)
	return KeySet{max(1, int64(binary.BigEndian.Uint64(sum[:])>>1)), string(raw)}
}

// KeyUses implements [ledger.Store].
func (r Reader) KeyUses(ctx context.Context) ([]ledger.KeyUse, error) {
	uses := make(map[string]ledger.KeyUse)
	err := r.each(ctx, r.d.KeyUses, nil, func(rows *sql.Rows) error {
		var raw []byte
		var kids []string
		var first, last, posts int64
		if err := rows.Scan(&raw, &first, &last, &posts); err != nil {
			return err
		}
		err := json.Unmarshal(raw, &kids)
		for _, kid := range kids {
			u, known := uses[kid]
			if !known {
				u = ledger.KeyUse{KeyID: kid, First: at(first), Last: at(last)}
			}
			if at(first).Before(u.First) {
				u.First = at(first)
			}
			if at(last).After(u.Last) {
				u.Last = at(last)
			}
			u.Posts += posts
			uses[kid] = u
		}
		return err
	})
	all := slices.SortedFunc(maps.Values(uses), func(a, b ledger.KeyUse) int { return cmp.Compare(a.KeyID, b.KeyID) })
	return append([]ledger.KeyUse{}, all...), err
}

// keySets returns the ids of the key sets with a key, as JSON. The key is a kid, or a name for all its versions.
func (r Reader) keySets(ctx context.Context, key string) (string, error) {
	ids := []int64{}
	err := r.each(ctx, selectKeySets, nil, func(rows *sql.Rows) error {
		var id int64
		var raw []byte
		var kids []string
		if err := rows.Scan(&id, &raw); err != nil {
			return err
		}
		err := json.Unmarshal(raw, &kids)
		if slices.ContainsFunc(kids, func(kid string) bool { return kid == key || isVersion(kid, key) }) {
			ids = append(ids, id)
		}
		return err
	})
	text, _ := json.Marshal(ids) // numbers can be written
	return string(text), err
}

// isVersion reports whether kid is a version of the key name, or of a key name/OWN of one process: who revokes name
// revokes both.
func isVersion(kid, name string) bool {
	i := max(0, strings.LastIndex(kid, ":v"))
	number, ok := strings.CutPrefix(kid[i:], ":v")
	_, err := strconv.ParseUint(number, 10, 32)
	return ok && err == nil && (kid[:i] == name || path.Dir(kid[:i]) == name)
}
