// Package evidence holds the artifacts of one mediated post: their claims and hashes, and how they are signed and
// opened. It knows nothing of HTTP or Vault.
//
// Every artifact is a compact JWS (RFC 7515), or two if a root signs twice ([Countersign]). Its header has exactly alg,
// kid and typ; its payload is the RFC 8785 canonical JSON of its claims. A reader accepts only the exact bytes that
// this package would write, and so refuses duplicate members, unknown header parameters, other spellings and stray
// base64 bits. No two readers can understand one token differently.
//
// A [Kind] ties claims to a typ (RFC 8725 section 3.11) and to the purpose of the key. [Open] takes the algorithm from
// the kind or the policy, never from the token. It finds the key through a custody certificate that a pinned registry
// key has signed ([Trust]).
//
// # Open once
//
// A process opens each artifact once and passes the [Opened] value on. Form, signature and claims never change. Time,
// trust and policy do: [Judge] checks them again.
//
// Open verifies the signature of a received artifact. If this process signs an artifact, the key's custody guarantees
// the signature ([OwnKey]): Vault and PKCS #11 custodies verify it before they return it, and custody in memory makes
// it itself.
//
// # Files
//
//	artifacts.go    claims that travel between processes; tokens.go a verifier's tokens to itself
//	claims.go       the claims that all have, and checks on single claims
//	kind.go         what each artifact is: typ, purpose, longest lifetime
//	sign.go         signing; second.go the post-quantum signature of a root
//	open.go         opening and judging; mac.go the same with a shared secret
//	verifier.go     what a verifier expects
//	trust.go        pinned roots and certified keys; bundle.go the trust bundle and revocations
//	past.go         keys and revocations of an earlier moment, for records
//	jws.go          the form of a token; internal/codec its claims as canonical JSON
//	hash.go         hashes of content, tokens and values
//
// Package interaction has the claims of interaction receipts.
package evidence
