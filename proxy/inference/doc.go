// Package inference reads calls to models as they pass. It sends nothing.
//
// # Privacy
//
// No text is kept, except for a sample if the caller wants one. Of a block of content only the size and an HMAC under
// the caller's key are kept, and of providers' and agents' names only those that look like names.
//
// # Sources
//
// The members come from the official SDKs, which are generated from the providers' OpenAPI documents:
// github.com/openai/openai-go/v3 v3.96.0 (chatcompletion.go, responses/response.go) and
// github.com/anthropics/anthropic-sdk-go v1.84.0 (message.go, betamessage.go).
package inference
