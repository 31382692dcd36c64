package tables

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

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

// keySet names the keys that signed the artifacts of a record.
type keySet struct {
	ID   int64  // a hash of the keys, above zero; 0 without keys
	Kids string // sorted, each once, as JSON
}

// keySetOf returns the keys that signed artifacts, without those of challenge and capability, which are a gate's
// secrets.
func keySetOf(artifacts []ledger.Artifact) keySet {
	var kids []string
	for _, a := range artifacts {
		if kid := keyOf(a.Token); kid != "" && a.Name != "challenge" && a.Name != "capability" {
			kids = append(kids, kid)
		}
	}
	if len(kids) == 0 {
		return keySet{}
	}
	slices.Sort(kids)
	raw, _ := json.Marshal(slices.Compact(kids)) // texts can be written
	sum := sha256.Sum256(raw)
	return keySet{max(1, int64(binary.BigEndian.Uint64(sum[:])>>1)), string(raw)}
}

const (
	// selectKeyUses uses the counts of a file. Pruning leaves a set's own first and last, from which the search begins.
	selectKeyUses = `SELECT kids, ` + edge + `started >= first ORDER BY started LIMIT 1), ` + edge +
		`started <= last ORDER BY started DESC LIMIT 1), n FROM key_sets WHERE n > 0`
	// edge begins to select the first or the last record of a key set.
	edge = `(SELECT started FROM posts ` + ByKeys + `WHERE keys > 0 AND keys = key_sets.id AND `
	// countKeyUses reads all of posts_keys.
	countKeyUses = `SELECT kids, used.first, used.last, used.n FROM (SELECT keys, min(started) AS first,
		max(started) AS last, count(*) AS n FROM posts WHERE keys > 0 GROUP BY keys) AS used
		JOIN key_sets ON key_sets.id = used.keys`
)

func (r Reader) KeyUses(ctx context.Context) ([]ledger.KeyUse, error) {
	type use struct {
		Kids        string
		First, Last time.Time
		Posts       int64
	}
	query, uses := selectKeyUses, make(map[string]ledger.KeyUse)
	if r.db.Shared() {
		query = countKeyUses
	}
	err := each(ctx, r, query, nil, func(of use) error {
		kids, err := kidsOf(of.Kids)
		for _, kid := range kids {
			u, known := uses[kid]
			if !known {
				u = ledger.KeyUse{KeyID: kid, First: of.First, Last: of.Last}
			}
			if of.First.Before(u.First) {
				u.First = of.First
			}
			if of.Last.After(u.Last) {
				u.Last = of.Last
			}
			u.Posts += of.Posts
			uses[kid] = u
		}
		return err
	})
	all := slices.SortedFunc(maps.Values(uses), func(a, b ledger.KeyUse) int { return cmp.Compare(a.KeyID, b.KeyID) })
	return append([]ledger.KeyUse{}, all...), err
}

func kidsOf(text string) (kids []string, err error) {
	if err = json.Unmarshal([]byte(text), &kids); err != nil {
		err = ledger.Unavailable("read", err)
	}
	return kids, err
}

// keySets returns the ids of the key sets with a key, and 0, as an SQL list. The key is a kid, or a name for all its
// versions.
func (r Reader) keySets(ctx context.Context, key string) (string, error) {
	type set struct {
		ID   int64
		Kids string
	}
	list := "0"
	err := each(ctx, r, `SELECT id, kids FROM key_sets`, nil, func(s set) error {
		kids, err := kidsOf(s.Kids)
		if slices.ContainsFunc(kids, func(kid string) bool { return kid == key || isVersion(kid, key) }) {
			list += ", " + strconv.FormatInt(s.ID, 10)
		}
		return err
	})
	return list, err
}

// isVersion reports whether kid is a version of the key name, or of a key name/OWN of one process: who revokes name
// revokes both.
func isVersion(kid, name string) bool {
	i := max(0, strings.LastIndex(kid, ":v"))
	number, ok := strings.CutPrefix(kid[i:], ":v")
	_, err := strconv.ParseUint(number, 10, 32)
	return ok && err == nil && (kid[:i] == name || path.Dir(kid[:i]) == name)
}
