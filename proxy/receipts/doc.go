// Package receipts makes interaction receipts, in one chain a session: one for each observed model call, each post, and
// the session's end.
//
//   - A call is stored as open before it is sent. After a crash the next start gives it an indeterminate receipt.
//   - A receipt gets its number when it is signed, and receipts are stored in order: a chain has no gap and no fork.
//   - [Keeper.Head] returns only stored receipts. It refuses while one cannot be signed or stored.
//   - No text leaves the process. Tags are HMACs under the session's key; the rest stays in memory.
//
// The memory is bounded for each session and in total. Figures that need more are not measured.
package receipts
