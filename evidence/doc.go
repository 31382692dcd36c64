// Package evidence holds the artifacts of one mediated post: their claims and hashes, and how they are signed and
// opened. It knows nothing of HTTP or Vault.
//
// Every artifact is a compact JWS (RFC 7515), or two if a root signs twice ([Countersign]). Its header has exactly alg,
// kid and typ; its payload is the RFC 8785 canonical JSON of its claims. A reader accepts only the exact bytes that
// this package would write, so no two readers can understand one token differently.
//
// A [Kind] ties claims to a typ (RFC 8725 section 3.11) and to the purpose of the signing key. [Open] takes the
// algorithm from the kind or the policy, never from the token. It finds the key through a custody certificate that a
// pinned registry key has signed ([Trust]).
//
// # Open once
//
// A process opens each artifact once and passes the [Opened] value on. Form, signature and claims never change. Time,
// trust and policy do: [Judge] checks them again. A process does not verify its own signatures again: its custody has
// verified them ([OwnKey]).
package evidence
