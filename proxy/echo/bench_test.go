package echo_test

import (
	"bytes"
	"encoding/base64"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

func BenchmarkReader(b *testing.B) {
	const object = `{"id":"evt_01J9Z3","object":"chat.completion","created":1731592800,"model":"m-4o",` +
		`"choices":[{"index":0,"message":{"role":"assistant",` +
		`"content":"Hello! How can I help you today?\nAsk me \"anything\" you like."}}]},` + "\n"
	binary := make([]byte, 768<<10)
	_, _ = rand.NewChaCha8([32]byte{}).Read(binary)
	s := newSecret(b, "Bearer ", "ghp_0123456789abcdefABCDEF0123456789abcd")
	buf := make([]byte, 16<<10)
	for _, body := range []struct {
		name string
		text []byte
	}{
		{"200 B of JSON", []byte(object)},
		{"1 MiB of JSON", []byte(strings.Repeat(object, 1<<20/len(object)))},
		{"1 MiB of base64", []byte(base64.StdEncoding.EncodeToString(binary))},
		{"1 MiB of bytes", append(binary, binary[:256<<10]...)},
	} {
		for name, search := range map[string]func(io.Reader) io.Reader{
			"without": func(r io.Reader) io.Reader { return r },
			"with":    func(r io.Reader) io.Reader { return s.Reader(r) },
		} {
			b.Run(body.name+" "+name, func(b *testing.B) {
				b.SetBytes(int64(len(body.text)))
				b.ReportAllocs()
				for b.Loop() {
					from := search(struct{ io.Reader }{bytes.NewReader(body.text)})
					for {
						if _, err := from.Read(buf); err != nil {
							break
						}
					}
				}
			})
		}
	}
}
