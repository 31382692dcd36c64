package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/ledger"
)

// example is what one real post has left in a ledger.
type example struct {
	post ledger.Record
	keys []ledger.Key
}

// readExample takes it from a sidecar that has made a post, whose folder is dir.
func readExample(ctx context.Context, dir string) (example, error) {
	var posts []ledger.Record
	if err := ask(ctx, filepath.Join(dir, "run", "serve.sock"), http.MethodGet, "/v1/posts?limit=1&state=forwarded", nil, &posts); err != nil {
		return example{}, err
	}
	if len(posts) == 0 {
		return example{}, errors.New("no post is on record")
	}
	e := example{post: posts[0]}
	for _, a := range e.post.Artifacts {
		var r struct{ Iss, Jti string }
		if parts := strings.Split(a.Token, "."); len(parts) == 3 {
			if raw, err := base64.RawURLEncoding.DecodeString(parts[1]); err == nil && json.Unmarshal(raw, &r) == nil && r.Jti != "" {
				e.keys = append(e.keys, ledger.Key{Kind: a.Name, ID: r.Iss + " " + r.Jti})
			}
		}
	}
	if len(e.keys) == 0 {
		return e, errors.New("the post on record has no artifacts")
	}
	return e, nil
}

// filling says how a ledger was filled.
type filling struct {
	Records int     `json:"records"`
	Keys    int     `json:"keys"`
	Bytes   int     `json:"bytes_a_record"`
	Whole   bool    `json:"with_artifacts"`
	FileGiB float64 `json:"file_gib"`
	Seconds float64 `json:"seconds"`
	FreeGiB float64 `json:"disk_free_gib"`
}

// group is how many posts are written together.
const group = 256

// fill writes n posts like the example into a new ledger, and a key for each of their artifacts, through the ledger's own writer, as posts of the
// last twelve hours have left them. Where the disk has not twice the room, records go without their artifacts.
func (e example) fill(ctx context.Context, dir string, n int) (filling, error) {
	f := filling{Records: n, Keys: n * len(e.keys), Whole: true}
	free, err := room(dir)
	if err != nil {
		return f, err
	}
	f.FreeGiB = free / (1 << 30)
	post := e.post
	if perPost, err := size(post); err != nil {
		return f, err
	} else if float64(n)*float64(perPost+200*len(e.keys))*2 > free {
		post.Artifacts, f.Whole = nil, false
	}
	if f.Bytes, err = size(post); err != nil {
		return f, err
	}
	began := time.Now()
	path := filepath.Join(dir, "ledger.db")
	l, err := ledger.Open(ctx, path, ledger.Options{Now: time.Now})
	if err != nil {
		return f, err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(2 * group)
	for first := 0; first < n && ctx.Err() == nil; first += group {
		count := min(group, n-first)
		g.Go(func() error { return l.Consume(ctx, e.keysOf(began, first, count, n)...) })
		for i := first; i < first+count; i++ {
			p := post
			p.Started = posted(began, i, n)
			p.ID, p.Session = at(e.post.ID, p.Started), fmt.Sprintf("ses_filled_%d", i/100)
			p.Finished = p.Started.Add(5 * time.Millisecond)
			g.Go(func() error { return l.Add(ctx, p) })
		}
	}
	err = errors.Join(g.Wait(), l.Close())
	var s unix.Stat_t
	if err == nil {
		err = unix.Stat(path, &s)
	}
	f.FileGiB, f.Seconds = float64(s.Size)/(1<<30), time.Since(began).Seconds()
	return f, err
}

// keysOf returns the keys of count posts from the first on, of n.
func (e example) keysOf(began time.Time, first, count, n int) []ledger.Key {
	keys := make([]ledger.Key, 0, count*len(e.keys))
	for i := first; i < first+count; i++ {
		started := posted(began, i, n)
		for _, k := range e.keys {
			keys = append(keys, ledger.Key{Kind: k.Kind, ID: at(k.ID, started), Expires: started.Add(5 * time.Minute)})
		}
	}
	return keys
}

// posted is when the i-th of n posts was made.
func posted(began time.Time, i, n int) time.Time {
	return began.Add(-12 * time.Hour).Add(time.Duration(float64(12*time.Hour) * float64(i) / float64(n)))
}

// at returns an id like another one, of another time: what stands before it, its issuer, stays.
func at(like string, t time.Time) string {
	fresh := evidence.NewOrderedID(t)
	return like[:max(len(like)-len(fresh), 0)] + fresh
}

func size(r ledger.Record) (int, error) {
	record, artifacts, err := r.Encode()
	return len(record) + len(artifacts), err
}

// room returns the free bytes of the disk that holds a folder.
func room(dir string) (float64, error) {
	var s unix.Statfs_t
	err := unix.Statfs(dir, &s)
	return float64(s.Bavail) * float64(s.Bsize), err
}

func (f filling) String() string {
	whole := "whole"
	if !f.Whole {
		whole = "without their artifacts, for lack of room"
	}
	return strings.TrimSpace(fmt.Sprintf("%d records of %d bytes, %s, and %d keys: a file of %.2f GiB, made in %.0f s", f.Records, f.Bytes, whole, f.Keys, f.FileGiB, f.Seconds))
}
