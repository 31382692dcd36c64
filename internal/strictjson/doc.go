// Package strictjson reads JSON that means the same to every reader. [Canonical] returns the RFC 8785 form of posted
// content, which is what gets hashed. [Parse] and [ParseMembers] decode documents with a fixed list of members. They
// refuse what two readers could understand differently, and say where.
//
// Package proxy/jsonread reads messages whose members are not known in advance; package strict reads YAML.
package strictjson
