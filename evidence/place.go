package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// place says where in a text a byte stands, as an editor counts.
func place(raw []byte, offset int) string {
	before := raw[:min(max(offset, 0), len(raw))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return fmt.Sprintf("line %d, column %d", bytes.Count(before, []byte{'\n'})+1, utf8.RuneCount(before[start:])+1)
}

// misspelt says what is wrong with a text that has no canonical form, and where. otherwise is said where nothing is found.
func misspelt(raw []byte, otherwise error) error {
	if syntax := checkSyntax(raw); syntax != nil {
		return syntax
	}
	for i := 0; i < len(raw); {
		r, size := utf8.DecodeRune(raw[i:])
		if r == utf8.RuneError && size == 1 {
			return fmt.Errorf("%s: there is a byte that is not UTF-8", place(raw, i))
		}
		i += size
	}
	if at := halfSurrogate(raw); at >= 0 {
		return fmt.Errorf("%s: there is half of a surrogate pair", place(raw, at))
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if path, _ := findTwice(dec, ""); path != "" {
		return fmt.Errorf("%s: %s comes twice", place(raw, int(dec.InputOffset())-1), path)
	}
	return otherwise
}

// checkSyntax refuses what is not one JSON text.
func checkSyntax(raw []byte) error {
	var syntax *json.SyntaxError
	if err := json.Unmarshal(raw, new(json.RawMessage)); errors.As(err, &syntax) {
		return fmt.Errorf("%s: %w", place(raw, int(syntax.Offset)-1), syntax)
	}
	return nil
}

// halfSurrogate returns where in a JSON text an escape stands for half of a surrogate pair, or -1.
func halfSurrogate(raw []byte) int {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		first, second := escaped(raw, i), escaped(raw, i+6)
		switch {
		case !utf16.IsSurrogate(first):
			i++
		case utf16.DecodeRune(first, second) == utf8.RuneError:
			return i
		default:
			i += 11
		}
	}
	return -1
}

// escaped returns the code unit of the escape \uXXXX at raw[i], or -1.
func escaped(raw []byte, i int) rune {
	if i+6 > len(raw) || raw[i] != '\\' || raw[i+1] != 'u' {
		return -1
	}
	unit, err := strconv.ParseUint(string(raw[i+2:i+6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(unit)
}

// findTwice reads the next value and returns the path of the first member in it that comes twice. Its recursion is as deep as the
// value, which [Canonical] bounds before.
func findTwice(dec *json.Decoder, path string) (string, error) {
	token, err := dec.Token()
	open, isOpen := token.(json.Delim)
	if err != nil || !isOpen {
		return "", err
	}
	seen := make(map[string]bool)
	for i := 0; dec.More(); i++ {
		at := fmt.Sprintf("%s[%d]", path, i)
		if open == '{' {
			token, err := dec.Token()
			if err != nil {
				return "", err
			}
			name, _ := token.(string)
			if at = member(path, name); seen[name] {
				return at, nil
			}
			seen[name] = true
		}
		if twice, err := findTwice(dec, at); twice != "" || err != nil {
			return twice, err
		}
	}
	_, err = dec.Token()
	return "", err
}

// member is the path of a member below path. A name that would not read well in a path stands in quotes, and a long one is cut.
func member(path, name string) string {
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
