package kube

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/files"
)

// Object is what can be watched.
type Object interface{ Metadata() Meta }

// Observer learns the objects of a list.
type Observer[T Object] struct {
	// Listed gets all objects, at first and whenever the watch had to begin again.
	Listed func(all []T)
	// Changed gets an object that was added or modified, Deleted one that was deleted.
	Changed, Deleted func(T)
	// Failed gets each error, after which the watch goes on.
	Failed func(error)
}

const (
	pageSize                = 500
	watchSeconds            = 300
	leastPause, longesPause = 250 * time.Millisecond, 30 * time.Second
)

// Watch lists the objects at a path and follows their changes until ctx ends. selector is a field selector or empty.
func Watch[T Object](ctx context.Context, c *Client, path, selector string, o Observer[T]) {
	pause, version := leastPause, ""
	for ctx.Err() == nil {
		var err error
		if version == "" {
			var all []T
			if all, version, err = List[T](ctx, c, path, selector); err == nil {
				o.Listed(all)
			}
		}
		if err == nil {
			version, err = follow(ctx, c, path, selector, version, o)
		}
		if err == nil {
			pause = leastPause
			continue
		}
		if ctx.Err() != nil {
			return
		}
		if gone(err) {
			version = ""
			continue
		}
		o.Failed(err)
		_ = every.Sleep(ctx, pause/2+rand.N(pause)) //nolint:gosec // no secret
		pause = min(2*pause, longesPause)
	}
}

// gone reports whether the API server no longer knows the version from which a watch should go on.
func gone(err error) bool {
	var status *StatusError
	return errors.As(err, &status) && (status.Code == http.StatusGone || status.Reason == "Expired")
}

// List returns the objects at a path as they are now, and their version. selector is as for [Watch].
func List[T Object](ctx context.Context, c *Client, path, selector string) (all []T, version string, err error) {
	query, limit := make(url.Values), pageSize
	if selector != "" {
		query.Set("fieldSelector", selector)
	}
	for {
		query.Set("limit", strconv.Itoa(limit))
		var page struct {
			Metadata struct {
				ResourceVersion string `json:"resourceVersion"`
				Continue        string `json:"continue"`
			} `json:"metadata"`
			Items []T `json:"items"`
		}
		err := c.do(ctx, http.MethodGet, path, query, "", nil, &page)
		switch {
		case errors.Is(err, files.ErrLarge) && limit > 1: // pods can be large
			limit = (limit + 7) / 8
			continue
		case err != nil:
			return nil, "", err
		}
		all, version = append(all, page.Items...), page.Metadata.ResourceVersion
		if page.Metadata.Continue == "" {
			return all, version, nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
}

// follow returns the version at which the watch ended, which is usual.
func follow[T Object](ctx context.Context, c *Client, path, selector, version string, o Observer[T]) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, (watchSeconds+60)*time.Second)
	defer cancel()
	query := url.Values{"watch": {"1"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {version},
		"timeoutSeconds": {strconv.Itoa(watchSeconds)}}
	if selector != "" {
		query.Set("fieldSelector", selector)
	}
	body, err := c.send(ctx, http.MethodGet, path, query, "", nil)
	if err != nil {
		return version, err
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		var event struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return version, fmt.Errorf("an event of %s cannot be read: %w", path, err)
		}
		if event.Type == "ERROR" {
			status := &StatusError{about: "the watch of " + path}
			_ = json.Unmarshal(event.Object, status)
			return version, status
		}
		var object T
		if err := json.Unmarshal(event.Object, &object); err != nil {
			return version, fmt.Errorf("an object of %s cannot be read: %w", path, err)
		}
		version = object.Metadata().ResourceVersion
		switch event.Type {
		case "ADDED", "MODIFIED":
			o.Changed(object)
		case "DELETED":
			o.Deleted(object)
		}
	}
	if err := lines.Err(); err != nil && ctx.Err() == nil {
		return version, err
	}
	return version, ctx.Err()
}
