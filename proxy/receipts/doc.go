// Package receipts makes the interaction receipts of sessions: one for each observed call to a model, one for each
// post, and one for the end of a session, in one chain for each session.
//
//	keeper.go   signs receipts and hands them to the ledger; closes at its start what an earlier process has left open
//	chain.go    the chain of one session: which calls are open, and where it stands
//	call.go     one call, from before it is sent to its receipt
//	draft.go    what a receipt says before its call is sent; result.go what it says of the end
//	challenge.go the challenge that the agent has to answer, and the probes that go with it
//	memory.go   what is remembered of a session to make its figures; sample.go the text of which entropy and compression are taken
//
// # What it promises
//
//   - That a call is open is durable before it is sent. A crash leaves no call without a receipt: the next start makes
//     one that says
//     "indeterminate".
//   - A number is given when a receipt is signed, and receipts are stored in their order. A chain has no gap and no
//     fork.
//   - What others are shown of a chain is stored: [Keeper.Head] waits for it, and refuses while a receipt cannot be
//     signed or stored.
//   - Nothing that was said leaves the process: tags are HMACs under the key of the session, and what is remembered is
//     in memory only.
//
// What is remembered is bounded, for one session and for all. A figure that needs more is not measured.
package receipts
