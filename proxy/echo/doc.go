// Package echo keeps a credential from an agent when an upstream repeats it in an answer. Some APIs do so on purpose
// (a page that shows the request it got), and others by accident (an error page).
//
//	forms.go    the forms in which servers repeat a secret
//	find.go     finds them in a text
//	reader.go   finds them in a stream, and holds back what may be the beginning of one
//	answer.go   does both for an HTTP answer
//
// What is done with a text that does not hold the secret never depends on the secret, only on its length and on which
// punctuation it has: neither which bytes are held back, nor how long the search takes. An agent that chooses the text, such as a
// file that it has stored at the API, could otherwise try the beginnings of a secret, and find the secret byte by byte.
package echo
