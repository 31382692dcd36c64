// Package inference reads calls to models on their way: what is asked, and what is answered when. It sends and serves
// nothing.
//
//	dialect.go      the shapes of APIs that are read, and what of a request makes a provider do more than answer
//	request.go      judges a request, before it is sent; content.go reads what it says to the model; path.go which model its path names
//	observer.go     takes the answer as it passes, and hands it to a reader beside it
//	reader.go       reads an answer for somebody who passes on what it says
//	measure.go      what is taken besides, where receipts are made of the calls
//	tally.go        what is counted of an answer, by chat.go, responses.go or messages.go; usage.go what the
//	                provider says of its tokens
//	interaction.go  what is known of a call in the end
//
// # Privacy
//
// No text stays, but for a sample of answers that the caller asks for: of a block of content its size is kept and an
// HMAC under a key of the caller, who never gives it away. Names that a provider or an agent chooses are kept only if
// they look like names.
//
// # Sources
//
// The members of requests and answers are those of the official SDKs, which are generated from the providers' OpenAPI
// documents: github.com/openai/openai-go/v3 v3.96.0 (chatcompletion.go, responses/response.go) and
// github.com/anthropics/anthropic-sdk-go v1.84.0 (message.go, betamessage.go).
package inference
