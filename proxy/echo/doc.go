// Package echo keeps a credential from an agent when an upstream repeats it in an answer, on purpose (a page that shows
// the request) or by accident (an error page).
//
//	forms.go    the forms in which servers repeat a secret
//	find.go     finds them in a text
//	reader.go   finds them in a stream, and holds back what may begin one
//	answer.go   searches an HTTP answer
//
// For a text without the secret, neither the bytes held back nor the time of the search depend on the secret, except on
// its length and its punctuation. An agent can choose the text, such as a file that it stored at the API, and could
// otherwise guess the secret byte by byte.
package echo
