// Package strictjson reads JSON that has one meaning for all readers. [Canonical] returns posted content in its RFC 8785 form, which is what
// is hashed. [CanonicalOf] returns the form of a Go value; [ParseCanonical] reads that and no other spelling. [Parse] and [ParseMembers] read
// documents with a fixed list of members into Go types: bundles, records, requests between processes, GraphQL requests. They refuse what two
// readers could understand differently, and say where it is.
//
// [Loose] reads as most other libraries do. It only serves to say what is wrong with a token that is refused in any case.
//
// Messages of others, whose members nobody knows in advance, are read by package jsonread below proxy; configurations, which are YAML, by
// package strict.
//
// # Files
//
//	canonical.go  the canonical form, and the bounds of posted JSON
//	parse.go      documents of an exact form
//	position.go   where in a text something is wrong
//	loose.go      as other libraries read
package strictjson
