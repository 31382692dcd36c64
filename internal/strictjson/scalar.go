package strictjson

import (
	"unicode/utf16"
	"unicode/utf8"
)

func (r *reader) string() ([]byte, *fault) {
	r.at++
	var unescaped []byte
	escaped := false
	for start := r.at; ; {
		if r.at == len(r.raw) {
			return nil, r.missing("a closing quote")
		}
		c := r.raw[r.at]
		switch {
		case c == '"':
			s := r.raw[start:r.at]
			if r.at++; escaped {
				s = append(unescaped, s...)
			}
			return s, nil
		case c == '\\':
			unescaped, escaped = append(unescaped, r.raw[start:r.at]...), true
			var err *fault
			if unescaped, err = r.escape(unescaped); err != nil {
				return nil, err
			}
			start = r.at
		case c < ' ':
			return nil, r.fault(r.at, "has the control character %q in a string", c)
		case c < utf8.RuneSelf:
			r.at++
		default:
			char, size := utf8.DecodeRune(r.raw[r.at:])
			if char == utf8.RuneError && size == 1 {
				return nil, r.fault(r.at, "has a byte that is not UTF-8")
			}
			r.at += size
		}
	}
}

// escapes are the characters that a backslash and one letter name.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func (r *reader) escape(to []byte) ([]byte, *fault) {
	at := r.at
	if at+1 < len(r.raw) && escapes[r.raw[at+1]] != 0 {
		r.at += 2
		return append(to, escapes[r.raw[at+1]]), nil
	}
	char, ok := hexEscape(r.raw[at:])
	if !ok {
		return nil, r.fault(at, "has an unknown escape in a string")
	}
	r.at += 6
	if utf16.IsSurrogate(char) {
		second, ok := hexEscape(r.raw[r.at:])
		if char = utf16.DecodeRune(char, second); !ok || char == utf8.RuneError {
			return nil, r.fault(at, "has half of a surrogate pair")
		}
		r.at += 6
	}
	return utf8.AppendRune(to, char), nil
}

func hexEscape(raw []byte) (char rune, ok bool) {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0, false
	}
	for _, c := range raw[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		char = char<<4 | rune(c)
	}
	return char, true
}

func (r *reader) number() *fault {
	start := r.at
	if r.raw[r.at] == '-' {
		r.at++
	}
	zero := r.at < len(r.raw) && r.raw[r.at] == '0'
	digits := r.digits()
	whole := true
	if ok := digits == 1 || digits > 1 && !zero; !ok {
		return r.fault(start, "has a number without digits or with leading zeros")
	}
	if r.at < len(r.raw) && r.raw[r.at] == '.' {
		r.at++
		if whole = false; r.digits() == 0 {
			return r.missing("a digit")
		}
	}
	if r.at < len(r.raw) && r.raw[r.at]|0x20 == 'e' {
		r.at++
		if r.at < len(r.raw) && (r.raw[r.at] == '+' || r.raw[r.at] == '-') {
			r.at++
		}
		if whole = false; r.digits() == 0 {
			return r.missing("a digit")
		}
	}
	spelled := r.raw[start:r.at]
	if whole && len(spelled) <= exactDigits && spelled[0] != '-' { // it is its own canonical form
		if r.write {
			r.out = append(r.out, spelled...)
		}
		return nil
	}
	if !r.bounded {
		return nil
	}
	f, ok := faithful(string(spelled))
	if !ok {
		return r.fault(start,
			"holds the number %.40s, which a double does not hold exactly (RFC 8785); send a string, or "+
				"configure the action with content: raw", spelled)
	}
	if r.write {
		r.out = AppendNumber(r.out, f)
	}
	return nil
}

func (r *reader) digits() int {
	start := r.at
	for r.at < len(r.raw) && '0' <= r.raw[r.at] && r.raw[r.at] <= '9' {
		r.at++
	}
	return r.at - start
}
