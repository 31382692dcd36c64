// Package inference reads calls to models as they pass. It sends nothing.
//
//	dialect.go      the model APIs, and what makes a provider do more than answer
//	request.go      judges a request; content.go reads its content, path.go the model in its path
//	observer.go     takes the answer as it passes, and reads it in another goroutine
//	reader.go       reads an answer for a caller that passes on its text
//	measure.go      additional measurements for receipts
//	tally.go        counts what chat.go, responses.go and messages.go read; usage.go reads tokens
//	interaction.go  what is known of a call at its end
//
// # Privacy
//
// No text is kept, except for a sample if the caller wants one. Of a block of content only the size and an HMAC under
// the caller's key are kept. Names that providers and agents choose are kept only if they look like names.
//
// # Sources
//
// The members come from the official SDKs, which are generated from the providers' OpenAPI documents:
// github.com/openai/openai-go/v3 v3.96.0 (chatcompletion.go, responses/response.go) and
// github.com/anthropics/anthropic-sdk-go v1.84.0 (message.go, betamessage.go).
package inference
