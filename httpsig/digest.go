package httpsig

import (
	"crypto/sha256"
	"errors"
	"net/http"

	"github.com/dunglas/httpsfv"
)

// digestName is the only algorithm; others of a field are ignored.
const digestName = "sha-256"

// ContentDigest returns the value of Content-Digest for content with this SHA-256.
func ContentDigest(sum [sha256.Size]byte) string {
	d := httpsfv.NewDictionary()
	d.Add(digestName, httpsfv.NewItem(sum[:]))
	text, _ := httpsfv.Marshal(d) // bytes can be written
	return text
}

// ReadContentDigest returns the SHA-256 in a Content-Digest.
func ReadContentDigest(h http.Header) (sum [sha256.Size]byte, err error) {
	d, err := dictionary(h, "Content-Digest")
	if err != nil {
		return sum, err
	}
	member, _ := d.Get(digestName)
	item, _ := member.(httpsfv.Item)
	if raw, ok := item.Value.([]byte); ok && len(raw) == len(sum) {
		return [sha256.Size]byte(raw), nil
	}
	return sum, errors.New("httpsig: the message has no Content-Digest with sha-256")
}
