// Package httpsig signs and verifies HTTP messages by RFC 9421, with Ed25519 alone, and makes their content digests
// (RFC 9530). A verifier says what a signature must cover; nothing is optional.
//
// Components are written as in the RFC, without quotation marks: "@status", "content-digest", "@method;req",
// `signature-agent;key="sig1"`. Fields are covered as they are sent. These are refused: @request-target, @query-param,
// and every parameter but req and key.
package httpsig
