package autonomy

import (
	"os"
	"testing"
)

func TestTry(t *testing.T) {
	all, err := Make(24, 1)
	if err != nil {
		t.Fatal(err)
	}
	WriteFigures(os.Stdout, all)
}
