// Package ledger durably keeps the record of every call, and the consumed single-use keys: the ids of tokens.
//
//   - Exactly one caller consumes a key, durably and for good, before anything depends on that.
//   - The intent to forward a post and its consumed keys become durable in one transaction, before the post's first
//     byte goes out.
//   - A post whose outcome was lost in a crash becomes indeterminate, and is never sent again.
//
// A [Store] keeps these promises: package ledger/sqlite in one process's file, package ledger/postgres in a database
// that several processes share. Both must pass the tests of package test/ledgertest. A [Queue] in front of a store
// takes records that no caller waits for; [Watched] notices a store that was replaced.
package ledger
