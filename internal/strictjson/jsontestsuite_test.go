package strictjson

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gomodule"
)

// The parsing tests of JSONTestSuite (MIT), served by the Go module proxy. It has no Go packages, so go.mod cannot name
// it: test/scripts/setup.sh downloads it by this checksum.
const (
	jsonTestSuite    = "github.com/nst/JSONTestSuite@v0.0.0-20241122125541-1ef36fa01286"
	jsonTestSuiteSum = "h1:t/cjDwz9uc/5ZSagWtr7nWpoEA5Imvw/ArlJuI+d+Cw="
)

// exact is the only file that we accept of those that a parser may accept or refuse (i_): we refuse what two readers
// could read as two values, such as a number that a double does not hold, a lone surrogate, or bytes that are not
// UTF-8.
const exact = "i_number_too_big_pos_int.json"

// duplicates are the only valid files (y_) that are refused.
var duplicates = map[string]bool{"y_object_duplicated_key.json": true, "y_object_duplicated_key_and_value.json": true}

func TestJSONTestSuite(t *testing.T) {
	files, err := filepath.Glob(
		filepath.Join(gomodule.Download(t, jsonTestSuite, jsonTestSuiteSum), "test_parsing", "*.json"))
	if err != nil || len(files) != 318 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		check.Must(t, err)
		name := filepath.Base(f)
		_, err = Canonical(raw)
		if err != nil {
			var refused *refusal.Refusal
			if !errors.As(err, &refused) || refused.Code() != "content_malformed" {
				t.Errorf("%s: %v is not content_malformed", name, err)
			}
		}
		valid := strings.HasPrefix(name, "y_") && !duplicates[name] || name == exact
		if (err == nil) != valid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
