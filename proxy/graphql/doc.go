// Package graphql reads the operations of a GraphQL request and their top-level fields. It knows no schema and reads no
// variables.
//
//	request.go   reads a POST or GET request so that no server finds another document in it
//	document.go  reads operations, fragments and fields
//	rule.go      matches a document with the rule that names its operations
//	problem.go   writes a refusal in the form that GraphQL clients show
package graphql
