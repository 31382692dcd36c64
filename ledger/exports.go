package ledger

import (
	"context"
	"encoding/json"
)

// Exports lists the calls whose records were not exported yet. A ledger that exports adds each call in the transaction
// that stores its end, so that a crash neither loses nor repeats one. Processes that share a ledger each list the calls
// whose ends they stored. It is safe for concurrent use.
type Exports interface {
	// Unexported returns the records that the ledger has had longest: at most limit, and after the first one only as
	// long as their texts have at most MaxExport bytes together.
	Unexported(ctx context.Context, limit int) ([]Export, error)
	// Exported ends the listing of these records. It skips those that are not listed.
	Exported(ctx context.Context, records ...Export) error
}

// MaxExport bounds the texts of the records that [Exports] returns at once, in bytes.
const MaxExport = 4 << 20

// Export is a record as the ledger stores it. An exporter copies the evidence, most of its text, without reading it.
type Export struct {
	Seq       int64 // its place in the ledger
	ID        string
	Record    string // the [Record] without its artifacts, a JSON object
	Artifacts string // a JSON list; empty if there are none
}

// Bare reads the record without its artifacts.
func (e Export) Bare() (r Record, err error) { return r, json.Unmarshal([]byte(e.Record), &r) }

// AppendJSON appends the whole record.
func (e Export) AppendJSON(to []byte) []byte {
	if e.Artifacts == "" {
		return append(to, e.Record...)
	}
	to = append(to, e.Record[:len(e.Record)-1]...) // without the brace
	to = append(append(to, `,"artifacts":`...), e.Artifacts...)
	return append(to, '}')
}
