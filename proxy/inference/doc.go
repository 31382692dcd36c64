// Package inference reads calls to models as they pass. It sends nothing.
//
// # Privacy
//
// No text is kept, except for a sample if the caller wants one. Of a block of content only the size and an HMAC under
// the caller's key are kept, and of providers' and agents' names only those that look like names.
package inference
