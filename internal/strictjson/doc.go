// Package strictjson reads JSON that means the same to every reader. [Canonical] returns the RFC 8785 form of posted
// content, which is what gets hashed. [Parse] and [ParseMembers] decode documents with a fixed list of members:
// bundles, records, requests between processes. One reader stands behind all of them. It refuses what two readers
// could understand differently, and says where.
//
// Package proxy/jsonread reads messages whose members are not known in advance; package strict reads YAML.
//
// # Files
//
//	reader.go     reads and checks one text; scalar.go its strings and numbers
//	shape.go      the members and types that a Go type accepts
//	canonical.go  writes the canonical form
//	parse.go      decodes into Go types
package strictjson
