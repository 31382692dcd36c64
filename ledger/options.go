package ledger

import "time"

// Options configure a ledger that package ledger/sqlite or ledger/postgres opens.
type Options struct {
	// Now is the clock; required.
	Now func() time.Time
	// Retention bounds the age of records; zero keeps them for ever.
	Retention time.Duration
	// Logged is called after leaves of the transparency log were stored. With it, the ledger keeps one for each intent
	// and each outcome. It must not wait.
	Logged func()
	// Ended is called after ends of calls were stored. With it, the ledger lists their records: see [Exports]. It must
	// not wait.
	Ended func()

	// Known means that the ledger in a file was used before: a missing file is refused with a [*ReplacedError], and not
	// created.
	Known bool

	// Instance identifies this process in a database, also after a restart. Required there. The database gets only its
	// hash: an attacker who can write open calls there, and knows Instance, gets false receipts signed.
	Instance string
	// Chains is a folder of this process alone, for the names of chains of receipts that have not ended. Without it,
	// an attacker who puts the open calls of an ended chain back into the database gets them signed again.
	Chains string
}
