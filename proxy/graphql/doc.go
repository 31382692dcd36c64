// Package graphql reads the operations of a GraphQL request and their top-level fields. It knows no schema and reads no
// variables.
package graphql
