// Package inference reads calls to models as they pass. It sends nothing.
//
// # Privacy
//
// No text is kept, except for a sample if the caller wants one. Of each block of content, only the size and an HMAC
// under the caller's key are kept. Names that providers and agents give are kept only if they look like names.
package inference
