package strictjson

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/test/gomodule"
)

// The parsing tests of JSONTestSuite (MIT), whose repository the Go module proxy serves as a module. It has no Go packages, so go.mod
// cannot name it: test/scripts/setup.sh downloads it, and its checksum stands here.
const (
	jsonTestSuite    = "github.com/nst/JSONTestSuite@v0.0.0-20241122125541-1ef36fa01286"
	jsonTestSuiteSum = "h1:t/cjDwz9uc/5ZSagWtr7nWpoEA5Imvw/ArlJuI+d+Cw="
)

// Why a file is refused, by its code.
const (
	lossy     = "content_malformed"
	malformed = "content_malformed"
)

// undecided are the files that a JSON parser may accept or refuse (i_), each with our verdict: the code that refuses it, or nothing. The
// rule is one: what two readers could read as two values is refused.
var undecided = map[string]string{
	// A double does not hold the number, or not exactly: another number would have the same canonical form.
	"i_number_double_huge_neg_exp.json":   lossy,
	"i_number_huge_exp.json":              lossy,
	"i_number_neg_int_huge_exp.json":      lossy,
	"i_number_pos_double_huge_exp.json":   lossy,
	"i_number_real_neg_overflow.json":     lossy,
	"i_number_real_pos_overflow.json":     lossy,
	"i_number_real_underflow.json":        lossy,
	"i_number_too_big_neg_int.json":       lossy,
	"i_number_very_big_negative_int.json": lossy,
	"i_number_too_big_pos_int.json":       "", // 1e20 is held exactly
	// A surrogate without its other half is no character: readers put another one in its place, or several, or none.
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
	// Not UTF-8 (RFC 8259 section 8.1; RFC 3629 forbids the surrogates and the overlong forms).
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
	"i_structure_UTF-8_BOM_empty_object.json":      malformed,           // a byte order mark is not added (RFC 8259 section 8.1), and here not ignored
	"i_structure_500_nested_arrays.json":           "content_malformed", // MaxDepth
}

// duplicates are the only valid files (y_) that are refused: readers disagree about which of two equal names counts.
var duplicates = map[string]bool{"y_object_duplicated_key.json": true, "y_object_duplicated_key_and_value.json": true}

// TestJSONTestSuite gives all 318 files to what reads posted JSON.
func TestJSONTestSuite(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(gomodule.Download(t, jsonTestSuite, jsonTestSuiteSum), "test_parsing", "*.json"))
	if err != nil || len(files) != 318 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	judged := 0
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
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
