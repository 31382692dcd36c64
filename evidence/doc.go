// Package evidence holds the artifacts of one mediated post: their claims, their canonical hashes, one generic [Sign] and
// one generic [Open]. It knows nothing of HTTP, of Vault or of how a post travels.
//
// Every artifact is a compact JWS (RFC 7515), or two of them where a root signs twice ([Countersign]), whose header has exactly the members alg, kid and typ, and whose payload is the
// RFC 8785 canonical JSON of its claims. Both are compared byte for byte with what this package would have written itself,
// so two readers can never understand the same token differently: a duplicate member, an unknown header parameter, another
// spelling of the same text or a stray base64 bit is refused although its signature may be right.
//
// A [Kind] ties the claims of one artifact to its typ (RFC 8725 section 3.11) and to the purpose that the key behind it must be
// certified for. [Open] takes the algorithm from the kind or from the policy, never from the token; it resolves the key through a custody
// certificate that a pinned registry key has signed ([Trust]), but for what pinned roots sign themselves; and it demands what [Expected]
// says: issuers, audiences, key ids or an age that are left empty refuse everything.
package evidence
