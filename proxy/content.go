package proxy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
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

// content is the body of a post, read once: what was hashed is what will be sent.
type content struct {
	hash string
	size int64
	mem  []byte
	file *os.File // unlinked; nil while the body fits in memory
}

// readContent reads, bounds and hashes the body of a post.
func readContent(w http.ResponseWriter, r *http.Request, a *Action, spoolDir string) (*content, error) {
	if len(r.Trailer) > 0 {
		return nil, evidence.Refuse("content_trailers", "the request announces trailers, which the content hash would not cover")
	}
	limit := a.MaxBody
	if a.Content == ContentJSON {
		if err := checkJSONType(r.Header); err != nil {
			return nil, err
		}
		limit = min(limit, maxJSON)
	}
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	body := http.MaxBytesReader(w, r.Body, limit)
	c, err := spool(body, r.ContentLength, spoolDir)
	if err != nil {
		return nil, readError(err, limit)
	}
	if len(r.Trailer) > 0 { // unannounced trailers appear only once the body has been read
		c.Close()
		return nil, evidence.Refuse("content_trailers", "the request carries trailers, which the content hash would not cover")
	}
	if a.Content == ContentJSON {
		raw, err := c.bytes()
		if err == nil {
			c.hash, err = evidence.HashJSON(raw)
		}
		if err != nil {
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

// spool reads body to its end, into memory or an unlinked file, and hashes the bytes. announced is its length, or less where that is not known.
func spool(body io.Reader, announced int64, dir string) (*content, error) {
	var mem bytes.Buffer
	mem.Grow(int(min(max(announced, 0), spoolAnnounced)) + bytes.MinRead)
	if _, err := mem.ReadFrom(io.LimitReader(body, spoolAt)); err != nil {
		return nil, err
	}
	if mem.Len() < spoolAt {
		return &content{hash: evidence.HashBytes(mem.Bytes()), size: int64(mem.Len()), mem: mem.Bytes()}, nil
	}
	f, err := os.CreateTemp(dir, "body-*")
	if err != nil {
		return nil, evidence.Refuse("content_spool", "the body could not be kept while it is verified; the mediator's disk may be full")
	}
	c := &content{file: f, size: int64(mem.Len())}
	if err := os.Remove(f.Name()); err != nil { // nobody but this descriptor reads it, and it is gone with the process
		c.Close()
		return nil, evidence.Refuse("content_spool", "the body could not be kept privately while it is verified")
	}
	if _, err := f.Write(mem.Bytes()); err != nil {
		c.Close()
		return nil, evidence.Refuse("content_spool", "the body could not be kept while it is verified; the mediator's disk may be full")
	}
	sum := sha256.New()
	sum.Write(mem.Bytes())
	more, err := io.Copy(io.MultiWriter(f, sum), body)
	if err != nil {
		c.Close()
		return nil, err
	}
	c.size += more
	c.hash = hex.EncodeToString(sum.Sum(nil))
	return c, nil
}

// reader returns the body from its start.
func (c *content) reader() io.Reader {
	if c.file == nil {
		return bytes.NewReader(c.mem)
	}
	return io.NewSectionReader(c.file, 0, c.size)
}

func (c *content) bytes() ([]byte, error) {
	if c.file == nil {
		return c.mem, nil
	}
	b, err := io.ReadAll(c.reader())
	if err != nil {
		return nil, evidence.Refuse("content_spool", "the spooled body could not be read back")
	}
	return b, nil
}

// Close frees what holds the body.
func (c *content) Close() {
	if c.file != nil {
		_ = c.file.Close()
	}
}
