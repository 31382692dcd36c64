package proxy

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"strings"

	"github.com/actionproof/mediator/evidence"
)

const (
	// maxJSON bounds a JSON body, which is held in memory to be normalised, in bytes.
	maxJSON = 8 << 20
	// spoolAt is the size from which a raw body goes to an unlinked file instead of memory.
	spoolAt = 1 << 20
	// spoolAnnounced is how much memory is set aside for a body that is only announced.
	spoolAnnounced = 64 << 10
)

// readContent reads, bounds and hashes the body of a post.
func (b *bodies) readContent(ctx context.Context, w http.ResponseWriter, r *http.Request, a *Action) (*content, error) {
	if len(r.Trailer) > 0 {
		return nil, evidence.Refuse("content_trailers", "the request announces trailers, which the content hash would not cover")
	}
	limit, inMemory := a.MaxBody, int64(spoolAt)
	if a.Content == ContentJSON {
		if err := checkJSONType(r.Header); err != nil {
			return nil, err
		}
		limit, inMemory = min(limit, maxJSON), maxJSON+1 // never in a file
	}
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	body := http.MaxBytesReader(w, r.Body, limit)
	c, err := b.hold(body, r.ContentLength, inMemory)
	if err != nil {
		return nil, readError(err, limit)
	}
	if len(r.Trailer) > 0 { // unannounced trailers appear only once the body has been read
		c.Close()
		return nil, evidence.Refuse("content_trailers", "the request carries trailers, which the content hash would not cover")
	}
	if a.Content == ContentJSON {
		if c.hash, err = b.hashJSON(ctx, c.mem); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

func tooLarge(limit int64) error {
	return evidence.Refuse("content_too_large", "the body is larger than the %d bytes that this action allows", limit)
}

func readError(err error, limit int64) error {
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		return tooLarge(limit)
	}
	var refusal *evidence.Refusal
	if errors.As(err, &refusal) {
		return err
	}
	return evidence.Refuse("content_incomplete", "the body ended early or could not be read")
}

// checkJSONType refuses what would make the receiver read other text than was hashed.
func checkJSONType(h http.Header) error {
	if e := h.Values("Content-Encoding"); len(e) > 0 && !(len(e) == 1 && strings.EqualFold(e[0], "identity")) {
		return evidence.Refuse("content_encoded", "the body is sent with Content-Encoding %.40q; this action takes plain JSON", strings.Join(e, ", "))
	}
	types := h.Values("Content-Type")
	if len(types) != 1 {
		return evidence.Refuse("content_type", "the request has %d Content-Type headers; this action takes exactly one, a JSON type", len(types))
	}
	t, params, err := mime.ParseMediaType(types[0])
	if err != nil || t != "application/json" && !strings.HasSuffix(t, "+json") {
		return evidence.Refuse("content_type", "the Content-Type %.80q is not a JSON type; configure the action with content: raw for others", types[0])
	}
	if cs, ok := params["charset"]; ok && !strings.EqualFold(cs, "utf-8") {
		return evidence.Refuse("content_type", "the charset %.40q is not UTF-8", cs)
	}
	return nil
}
