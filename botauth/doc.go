// Package botauth signs requests for Web Bot Auth, and publishes the keys that verify them
// (draft-ietf-webbotauth-httpsig-protocol-01). It needs package httpsig for the signatures.
package botauth
