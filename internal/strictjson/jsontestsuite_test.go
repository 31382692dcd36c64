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

const (
	lossy     = "content_malformed"
	malformed = "content_malformed"
)

// undecided are files that a parser may accept or refuse (i_), with our verdict: refuse what two readers could read as
// two values.
var undecided = map[string]string{
	// A double does not hold the number exactly.
	"i_number_double_huge_neg_exp.json":   lossy,
	"i_number_huge_exp.json":              lossy,
	"i_number_neg_int_huge_exp.json":      lossy,
	"i_number_pos_double_huge_exp.json":   lossy,
	"i_number_real_neg_overflow.json":     lossy,
	"i_number_real_pos_overflow.json":     lossy,
	"i_number_real_underflow.json":        lossy,
	"i_number_too_big_neg_int.json":       lossy,
	"i_number_very_big_negative_int.json": lossy,
	"i_number_too_big_pos_int.json":       "", // held exactly
	// A lone surrogate is no character.
	"i_object_key_lone_2nd_surrogate.json":                malformed,
	"i_string_1st_surrogate_but_2nd_missing.json":         malformed,
	"i_string_1st_valid_surrogate_2nd_invalid.json":       malformed,
	"i_string_incomplete_surrogate_and_escape_valid.json": malformed,
	"i_string_incomplete_surrogate_pair.json":             malformed,
	"i_string_incomplete_surrogates_escape_valid.json":    malformed,
	"i_string_invalid_lonely_surrogate.json":              malformed,
	"i_string_invalid_surrogate.json":                     malformed,
	"i_string_inverted_surrogates_U+1D11E.json":           malformed,
	"i_string_lone_second_surrogate.json":                 malformed,
	// Not UTF-8 (RFC 8259 section 8.1, RFC 3629).
	"i_string_UTF-16LE_with_BOM.json":              malformed,
	"i_string_UTF-8_invalid_sequence.json":         malformed,
	"i_string_UTF8_surrogate_U+D800.json":          malformed,
	"i_string_invalid_utf-8.json":                  malformed,
	"i_string_iso_latin_1.json":                    malformed,
	"i_string_lone_utf8_continuation_byte.json":    malformed,
	"i_string_not_in_unicode_range.json":           malformed,
	"i_string_overlong_sequence_2_bytes.json":      malformed,
	"i_string_overlong_sequence_6_bytes.json":      malformed,
	"i_string_overlong_sequence_6_bytes_null.json": malformed,
	"i_string_truncated-utf-8.json":                malformed,
	"i_string_utf16BE_no_BOM.json":                 malformed,
	"i_string_utf16LE_no_BOM.json":                 malformed,
	"i_structure_UTF-8_BOM_empty_object.json":      malformed,           // a byte order mark
	"i_structure_500_nested_arrays.json":           "content_malformed", // MaxDepth
}

// duplicates are the only valid files (y_) that are refused.
var duplicates = map[string]bool{"y_object_duplicated_key.json": true, "y_object_duplicated_key_and_value.json": true}

func TestJSONTestSuite(t *testing.T) {
	files, err := filepath.Glob(
		filepath.Join(gomodule.Download(t, jsonTestSuite, jsonTestSuiteSum), "test_parsing", "*.json"))
	if err != nil || len(files) != 318 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	judged := 0
	for _, f := range files {
		raw, err := os.ReadFile(f)
		check.Must(t, err)
		name, code := filepath.Base(f), ""
		if _, err := Canonical(raw); err != nil {
			var refused *refusal.Refusal
			if !errors.As(err, &refused) {
				t.Fatalf("%s: %v has no code", name, err)
			}
			code = refused.Code()
		}
		want, known := undecided[name]
		switch {
		case strings.HasPrefix(name, "y_") && (code != "") != duplicates[name]:
			t.Errorf("%s is valid; it is refused as %q", name, code)
		case strings.HasPrefix(name, "n_") && code == "":
			t.Errorf("%s is invalid, and accepted", name)
		case strings.HasPrefix(name, "i_") && (!known || code != want):
			t.Errorf("%s: the verdict is %q, want %q (known: %t)", name, code, want, known)
		}
		if known {
			judged++
		}
	}
	if judged != len(undecided) {
		t.Errorf("%d of the %d files that are undecided were judged", judged, len(undecided))
	}
}
