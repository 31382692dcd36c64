package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// position says at which line and column of a text a byte stands, as an editor counts.
func position(raw []byte, offset int) string {
	before := raw[:min(max(offset, 0), len(raw))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return fmt.Sprintf("line %d, column %d", bytes.Count(before, []byte{'\n'})+1, utf8.RuneCount(before[start:])+1)
}

// misspelt says what is wrong with a text that has no canonical form, and where. refused is why the canonicaliser refused it.
func misspelt(raw []byte, refused error) error {
	if err := checkSyntax(raw); err != nil {
		return err
	}
	var fault *jsontext.SyntacticError
	if !errors.As(refused, &fault) {
		return refused
	}
	offset := int(fault.ByteOffset)
	switch {
	case errors.Is(refused, jsontext.ErrDuplicateName):
		end := skipString(raw, offset) - 1 // of the second name
		return fmt.Errorf("%s: %s comes twice", position(raw, end), pathOf(fault.JSONPointer))
	case bytes.HasPrefix(raw[min(offset, len(raw)):], []byte(`\u`)):
		return fmt.Errorf("%s: there is half of a surrogate pair", position(raw, offset))
	}
	return fmt.Errorf("%s: there is a byte that is not UTF-8", position(raw, offset))
}

// checkSyntax refuses what is not one JSON text.
func checkSyntax(raw []byte) error {
	var syntax *json.SyntaxError
	if err := json.Unmarshal(raw, new(json.RawMessage)); errors.As(err, &syntax) {
		return fmt.Errorf("%s: %w", position(raw, int(syntax.Offset)-1), syntax)
	}
	return nil
}

// pathOf writes a pointer to a member as the path of that member. It takes a number for the index of a list.
func pathOf(p jsontext.Pointer) (path string) {
	for name := range p.Tokens() {
		if strings.Trim(name, "0123456789") == "" && name != "" {
			path += "[" + name + "]"
		} else {
			path = memberPath(path, name)
		}
	}
	return path
}

// memberPath is the path of a member below path. A name that would not read well in a path stands in quotes, and a long one is cut.
func memberPath(path, name string) string {
	for _, c := range []byte(name) {
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			name = fmt.Sprintf("%.80q", name)
			break
		}
	}
	switch {
	case name == "":
		name = `""`
	case len(name) > 100:
		name = name[:80] + "…"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}
