// Package receipts makes interaction receipts, in one chain a session: one for each observed model call, each post, and
// the session's end.
//
//	keeper.go     signs receipts, hands them to the ledger, and closes chains that an earlier process left open
//	chain.go      the chain of a session: its open calls and its head
//	call.go       one call, from before it is sent to its receipt
//	draft.go      the claims before a call is sent; result.go the claims at its end
//	challenge.go  the agent's challenge and its probes
//	memory.go     the session's memory for the figures; sample.go text for entropy and compression
//
// # Promises
//
//   - A call is stored as open before it is sent. After a crash the next start gives it an indeterminate receipt.
//   - A receipt gets its number when it is signed, and receipts are stored in order: a chain has no gap and no fork.
//   - [Keeper.Head] returns only stored receipts. It refuses while one cannot be signed or stored.
//   - No text leaves the process. Tags are HMACs under the session's key; the rest stays in memory.
//
// The memory is bounded for each session and in total. Figures that need more are not measured.
package receipts
