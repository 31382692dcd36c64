package body

import (
	"os"
	"testing"

	"github.com/actionproof/mediator/test/check"
)

// TestFullSpool says of a disk that is full that it is, and not that the body broke off.
func TestFullSpool(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Fatal(err)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	check.Must(t, err)
	defer full.Close()
	_, err = spoolFile{full}.Write([]byte("x"))
	check.WantCode(t, err, "content_spool")
}
