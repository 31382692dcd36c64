package body

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"

	"github.com/actionproof/mediator/internal/wire"
)

// methodOverride returns a field of a body that makes some servers, such as those with Laravel or Rails, use another
// method: in a form, also one without a type, or in a JSON object of any type, as Parse reads it. A type that could be
// several is read as each.
func methodOverride(method string, h http.Header, body []byte) (name string) {
	kind := contentType(h)
	multipart := strings.Contains(kind, "multipart")
	if multipart {
		name = partOverride(body)
	}
	form := kind == "" || strings.Contains(kind, "urlencoded") || !multipart && strings.Contains(kind, "form")
	if name == "" && form {
		name = wire.QueryOverride(method, string(body))
	}
	if name == "" {
		name = memberOverride(body)
	}
	return name
}

func contentType(h http.Header) string { return strings.ToLower(strings.Join(h["Content-Type"], ", ")) }

// likeASCII is a charset in which fields have the names that [methodOverride] looks for.
var likeASCII = regexp.MustCompile(
	`charset\s*=\s*["']?(?:utf-?8|(?:us-)?ascii|latin1|iso-8859-\d{1,2}|windows-125\d)?["']?\s*(?:[;,]|$)`)

// hidesFields returns a header by which a body hides its fields from [methodOverride], but not from servers: Express
// expands a compressed form, and reads UTF-7.
func hidesFields(method string, h http.Header) (name string) {
	coding := strings.ToLower(strings.TrimSpace(strings.Join(h["Content-Encoding"], ",")))
	switch {
	case method != http.MethodPost: // no server takes another method for it
	case coding != "" && coding != "identity":
		return "Content-Encoding"
	case strings.Contains(likeASCII.ReplaceAllString(contentType(h), ""), "charset"):
		return "Content-Type"
	}
	return ""
}

// wide are the encodings that some servers find by their zeros: Python's json and Newtonsoft's.
var wide = []encoding.Encoding{
	unicode.UTF16(unicode.LittleEndian, unicode.UseBOM), unicode.UTF16(unicode.BigEndian, unicode.UseBOM),
	utf32.UTF32(utf32.LittleEndian, utf32.UseBOM), utf32.UTF32(utf32.BigEndian, utf32.UseBOM),
}

// memberOverride reads an object in every encoding that it may have.
func memberOverride(body []byte) string {
	name := memberIn(bytes.NewBuffer(bytes.TrimLeft(body, "\ufeff\ufffd")))
	if bytes.IndexByte(body[:min(len(body), 8)], 0) >= 0 {
		for _, e := range wide {
			name = cmp.Or(name, memberIn(e.NewDecoder().Reader(bytes.NewReader(body))))
		}
	}
	return name
}

func memberIn(text io.Reader) string {
	dec := jsontext.NewDecoder(text,
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	token, first := dec.ReadToken()
	if first == nil && token.Kind() != '{' {
		return ""
	}
	for dec.PeekKind() == '"' {
		name, _ := dec.ReadToken() // an error is also that of the value
		if text := name.String(); wire.IsOverride(text) {
			return text
		}
		if dec.SkipValue() != nil {
			break
		}
	}
	if _, err := dec.ReadToken(); err == nil {
		return ""
	}
	more, _ := io.ReadAll(text)
	rest := append(dec.UnreadBuffer(), more...)
	if first != nil && !bytes.HasPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte("/")) { // no comment before the object
		return ""
	}
	return memberLike(rest)
}

// memberLike looks for a member at any place of a text that is no JSON to the decoder, but may be to a server: one of
// more levels, or with comments. Names without double quotes are not found.
func memberLike(text []byte) string {
	var quoted []byte // nothing but white space, or a comment's first characters, follows it
	begin := 0
	for i, c := range text {
		switch c {
		case '"':
			quoted, begin = text[begin:i+1], i
		case ':':
			name, _ := jsontext.AppendUnquote(nil, quoted)
			if quoted = nil; wire.IsOverride(string(name)) {
				return string(name)
			}
		case ' ', '\t', '\r', '\n', '/', '*':
		default:
			quoted = nil
		}
	}
	return ""
}

var (
	fileName = regexp.MustCompile(`(?i)\bfilename\*?\s*=`)
	ignored  = regexp.MustCompile(`[\x00-\x20\x7f"'\\]+`)
	value    = regexp.MustCompile(`[=:]([^=:;]*)`)
)

// partOverride reads the headers of all parts, with any boundary. A header begins with a line of two hyphens, and ends
// where both PHP and Rack see its end: at an empty line, if the lines end with CR LF.
func partOverride(body []byte) string {
	begin, second, end := -1, 0, 0 // of a header, and its second line
	for line := range bytes.Lines(body) {
		at := end
		switch end += len(line); {
		case begin < 0 && bytes.HasPrefix(bytes.TrimLeft(line, "\x00\t\v\f\r "), []byte("--")):
			begin, second = at, end
		case begin >= 0 && bytes.HasSuffix(body[second:end], []byte("\r\n\r\n")):
			if name := nameOverride(body[begin:end]); name != "" {
				return name
			}
			begin = -1
		}
	}
	if end = bytes.LastIndexByte(body, '\n') + 1; begin >= 0 && begin < end {
		return nameOverride(body[begin:end])
	}
	return ""
}

// nameOverride looks for the field's name behind each = and : of a part's header, because servers disagree about broken
// lines and quotes. A file's name is none.
func nameOverride(header []byte) string {
	header = ignored.ReplaceAll(fileName.ReplaceAll(header, []byte(";")), nil)
	for _, found := range value.FindAllSubmatch(header, -1) {
		if name := wire.OverrideBefore(string(found[1])); name != "" {
			return name
		}
	}
	return ""
}
