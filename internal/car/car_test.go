package car

import (
	"bytes"
	"io"
	"testing"

	"github.com/actionproof/mediator/test/check"
)

// TestKnown has CIDs that the IPFS documentation and ipfs-car show. TestIPFS compares larger files with ipfs-car.
func TestKnown(t *testing.T) {
	for content, want := range map[string]string{
		"":            "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku",
		"hello world": "bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e",
	} {
		var out bytes.Buffer
		got, err := Write(&out, bytes.NewReader([]byte(content)))
		check.Must(t, err)
		if got != want {
			t.Errorf("%q: got %s", content, got)
		}
	}
}

func TestTooLarge(t *testing.T) {
	_, err := Write(nil, io.NewSectionReader(nil, 0, maxChunks*chunk+1))
	if err == nil || err.Error() != "the file has 1073741825 bytes, but a CAR takes at most 1073741824" {
		t.Errorf("got %v", err)
	}
}
