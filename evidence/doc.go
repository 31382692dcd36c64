// Package evidence holds the artifacts of one mediated post: their claims, their canonical hashes, how they are signed and how they are
// opened. It knows nothing of HTTP, of Vault or of the way of a post.
//
// Every artifact is a compact JWS (RFC 7515), or two of them where a root signs twice ([Countersign]). Its header has exactly the members
// alg, kid and typ, and its payload is the RFC 8785 canonical JSON of its claims. A reader compares both, byte for byte, with what this
// package would have written. So two readers never understand one token differently: a duplicate member, an unknown header parameter,
// another spelling of the same text or a stray base64 bit is refused although its signature may be right.
//
// A [Kind] ties the claims of one artifact to its typ (RFC 8725 section 3.11) and to the purpose that the key behind it must be certified
// for. [Open] takes the algorithm from the kind or from the policy, never from the token. It finds the key through a custody certificate
// that a pinned registry key has signed ([Trust]); pinned roots sign certificates themselves. It demands what [Expected] says: issuers,
// audiences, key ids or an age that are left empty refuse everything.
//
// # Open once
//
// A process opens each artifact that it receives once, and carries the [Opened] value on. An Opened value cannot be made by
// other means than [Open] or the signing functions of this package. Form, signature and claims of an artifact never change.
// Time, trust and policy do: code that rests something on an artifact that was opened earlier asks [Judge] again.
//
// Open verifies the signature of what was received. The signature of what this process has signed is not verified here: it
// rests on the custody of the key ([OwnKey]). Custodies in Vault and in PKCS #11 tokens verify each signature that comes back
// to them before they hand it out; custody in memory makes its signatures in this process, and does not verify them. Another
// implementation of OwnKey has to be as good: Judge would believe whatever it returns.
//
// # Files
//
// The claims of interaction receipts, which are no part of a post, are in package interaction ([NewKind]).
//
//	artifacts.go    the claims of what goes from process to process; tokens.go those of a verifier's tokens to itself
//	claims.go       the claims that all of them have, and the checks on single claims
//	kind.go         what each artifact is: its typ, its purpose, its longest lifetime
//	sign.go         signing; second.go the second, post-quantum signature of a root
//	open.go         opening and judging; mac.go where a secret takes the place of a key
//	verifier.go     what a verifier expects
//	trust.go        the pinned roots and the certified keys; bundle.go the trust bundle and the revocation list
//	past.go         the keys and revocations of an earlier moment, for records
//	jws.go          the form of a token; codec.go its claims as canonical JSON
//	hash.go         hashes of content, tokens and values
package evidence
