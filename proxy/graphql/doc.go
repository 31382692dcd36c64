// Package graphql reads what a GraphQL request does: the type of its operations, and the fields at their top. It knows no
// schema, looks into no variables, and sends nothing.
//
//	request.go   reads a request, by POST or by GET, so that no server reads another document in it
//	document.go  reads a document: operations, fragments, fields
//	rule.go      which operations a rule names, and the rule of a document
//	problem.go   a refusal as GraphQL clients show it
package graphql
