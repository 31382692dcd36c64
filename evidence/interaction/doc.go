// Package interaction holds interaction receipts. The sidecar signs one for each model call that it observes, for each
// post, and for the end of a session. Each session has one chain of them. The package also
// has caller tokens, which tell the node which agent makes a request, and statements, which tell it which agent
// published a document.
package interaction
