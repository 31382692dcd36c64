package graphql

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"

	"github.com/actionproof/mediator/internal/refusal"
)

// Bounds on a document. The parser itself bounds the depth.
const (
	maxDocument = 256 << 10 // bytes
	maxTokens   = 20_000    // comments included
	maxFields   = 256       // different top-level fields of all operations
	maxSelected = 50_000    // selections followed, counted once for every operation that reaches them
)

// Operation is one operation of a document, reduced to what rules name.
type Operation struct {
	Type   string   // query, mutation or subscription
	Fields []string // the top-level fields' names, without aliases, sorted and unique
}

// Everything that a server could run counts, including operations that the request does not pick and fields behind
// @skip and @include.
func readDocument(text string) ([]Operation, error) {
	if len(text) > maxDocument {
		return nil, refusal.New("content_too_large", "the document has more than %d bytes", maxDocument)
	}
	if err := checkText(text); err != nil {
		return nil, err
	}
	parsed, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: text}, maxTokens)
	if err != nil {
		return nil, notParsed(err)
	}
	if len(parsed.Operations) == 0 {
		return nil, malformed("the document has no operation")
	}
	d := document{fragments: make(map[string]ast.SelectionSet, len(parsed.Fragments))}
	for _, f := range parsed.Fragments {
		if _, twice := d.fragments[f.Name]; twice {
			return nil, ambiguous("has two fragments with the name %.60s", f.Name)
		}
		d.fragments[f.Name] = f.SelectionSet
	}
	operations := make([]Operation, 0, len(parsed.Operations))
	for _, o := range parsed.Operations {
		fields, err := d.fields(o.SelectionSet)
		if err != nil {
			return nil, err
		}
		operations = append(operations, Operation{Type: string(o.Operation), Fields: fields})
	}
	return operations, nil
}

// notParsed quotes nothing.
func notParsed(err error) error {
	var at *gqlerror.Error
	if errors.As(err, &at) && len(at.Locations) > 0 {
		return malformed("the document is not GraphQL at line %d, column %d", at.Locations[0].Line,
			at.Locations[0].Column)
	}
	return refusal.New("content_too_large", "the document has more than %d tokens", maxTokens)
}

// checkText refuses text in which parsers disagree about where a comment or a string ends: one parser's string is
// another's operation.
//   - Block strings: our parser ends """a"""" after the last quotation mark, others before it.
//   - Lone carriage returns and Unicode line ends, which older versions of the specification allowed.
//   - Byte order marks, control characters, and bytes that are not UTF-8.
func checkText(text string) error {
	if strings.Contains(text, `"""`) {
		return ambiguous(`has a block string ("""): send such text in a variable`)
	}
	if !utf8.ValidString(text) {
		return ambiguous("is not UTF-8")
	}
	for i, r := range text {
		switch {
		case r == '\r' && strings.HasPrefix(text[i:], "\r\n"), r == '\n', r == '\t':
		case r < ' ', r >= 0x7f && r <= 0x9f, r == 0x2028, r == 0x2029, r == 0xfeff:
			return ambiguous("has the character %U, which some parsers take for the end of a line: "+
				"send it in a variable", r)
		}
	}
	return nil
}

func ambiguous(format string, args ...any) error {
	return refusal.New("message_ambiguous", "the document "+format, args...)
}

type document struct {
	fragments map[string]ast.SelectionSet
	selected  int // counted against maxSelected
}

func (d *document) fields(top ast.SelectionSet) ([]string, error) {
	var fields []string
	known := make(map[string]bool)
	spread := make(map[string]bool) // fragments already queued: cycles end, and shared fragments are read once
	for queue := []ast.SelectionSet{top}; len(queue) > 0; queue = queue[1:] {
		if d.selected += len(queue[0]); d.selected > maxSelected {
			return nil, refusal.New("content_too_large", "the operations select more than %d fields and fragments",
				maxSelected)
		}
		for _, s := range queue[0] {
			switch s := s.(type) {
			case *ast.Field:
				if !known[s.Name] {
					known[s.Name] = true
					fields = append(fields, s.Name)
				}
			case *ast.InlineFragment:
				queue = append(queue, s.SelectionSet)
			case *ast.FragmentSpread:
				to, ok := d.fragments[s.Name]
				if !ok {
					return nil, malformed("the document has no fragment %.60s", s.Name)
				}
				if !spread[s.Name] {
					spread[s.Name] = true
					queue = append(queue, to)
				}
			default:
				return nil, malformed("the document selects something that is neither a field nor a fragment")
			}
		}
	}
	if len(fields) > maxFields {
		return nil, refusal.New("content_too_large", "an operation has more than %d different fields at its top",
			maxFields)
	}
	if len(fields) == 0 {
		return nil, malformed("an operation selects no field")
	}
	slices.Sort(fields)
	return fields, nil
}
