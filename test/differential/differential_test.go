package differential_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"io"
	"os"
	"testing"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/differential"
)

var (
	requests = flag.Int("requests", 400, "the number of requests to make")
	seed     = flag.Uint64("seed", 1, "the same seed makes the same faults")
	out      = flag.String("out", "", "a file to write the lines to")
)

// TestWrite makes lines of every status, and enough that are verified that the faults are not all there is to see.
func TestWrite(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if *out != "" {
		f, err = os.Create(*out)
	}
	check.Must(t, err)
	defer f.Close()
	w := bufio.NewWriter(f)
	differential.Write(t, w, *requests, *seed)
	check.Must(t, w.Flush())
	_, err = f.Seek(0, io.SeekStart)
	check.Must(t, err)
	codes, statuses, judged := make(map[string]int), make(map[string]int), 0
	for d := json.NewDecoder(bufio.NewReader(f)); ; {
		var l differential.Line
		if err := d.Decode(&l); err == io.EOF {
			break
		} else {
			check.Must(t, err)
		}
		if l.Request != nil {
			judged++
			statuses[l.Status]++
		}
		codes[l.Code]++
	}
	t.Logf("%d requests: %v, %v", judged, statuses, codes)
	if judged < *requests*9/10 || statuses["verified"] < judged/20 || statuses["refused"] < judged/2 ||
		len(codes) < 10 || codes["internal"] > 0 {
		t.Errorf("%d requests: %v, %v", judged, statuses, codes)
	}
}
