package ledger

import "context"

// Exports lists the calls whose records were not exported yet. A ledger that exports adds each call in the transaction
// that stores its end, so that a crash neither loses nor repeats one. Processes that share a ledger each list the calls
// whose ends they stored. It is safe for concurrent use.
type Exports interface {
	// Unexported returns records in the order in which they ended: at most limit, and after the first one only as long
	// as their texts have at most MaxExport bytes together.
	Unexported(ctx context.Context, limit int) ([]Record, error)
	// Exported ends the listing of these records. It skips unknown ids.
	Exported(ctx context.Context, ids ...string) error
}

// MaxExport bounds the texts of the records that [Exports] returns at once, in bytes.
const MaxExport = 4 << 20
