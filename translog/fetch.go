package translog

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/translog/leaf"
)

const (
	// maxPublished bounds each file of a log in bytes: a bundle of entries is the largest.
	maxPublished = torchwood.TileWidth * (2 + leaf.MaxEntry)
	// atOnce bounds the requests in flight, retries those that a busy log refused.
	atOnce, retries = 8, 3
)

// Fetch returns a reader of the log that is published at a URL, as [Handler] does. The client needs a timeout.
func Fetch(client *http.Client, url string) torchwood.TileReader {
	return fetcher{client, strings.TrimSuffix(url, "/") + "/"}
}

type fetcher struct {
	client *http.Client
	base   string
}

func (f fetcher) ReadTiles(ctx context.Context, tiles []tlog.Tile) ([][]byte, error) {
	data := make([][]byte, len(tiles))
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(atOnce)
	for i, t := range tiles {
		all.Go(func() (err error) {
			data[i], err = f.ReadEndpoint(ctx, torchwood.TilePath(t))
			return err
		})
	}
	return data, all.Wait()
}

// SaveTiles implements [torchwood.TileReader]. It keeps nothing.
func (fetcher) SaveTiles([]tlog.Tile, [][]byte) {}

func (f fetcher) ReadEndpoint(ctx context.Context, path string) (body []byte, err error) {
	for try := range retries + 1 {
		if err := every.Sleep(ctx, time.Duration(try)*firstRetry); err != nil {
			return nil, err
		}
		var busy bool
		if body, busy, err = f.get(ctx, path); !busy {
			break
		}
	}
	return body, err
}

func (f fetcher) get(ctx context.Context, path string) (body []byte, busy bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.base+path, nil)
	if err != nil {
		return nil, false, err
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		busy = resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= http.StatusInternalServerError
		return nil, busy, fmt.Errorf("the log answers %d for %s", resp.StatusCode, path)
	}
	if body, err = io.ReadAll(io.LimitReader(resp.Body, maxPublished+1)); err == nil && len(body) > maxPublished {
		err = malformed("the log's %s has more than %d bytes", path, maxPublished)
	}
	return body, false, err
}
