// Package chain has the commands that take a chain of evidence out and check it: posts export, posts open, verify
// and log audit.
package chain
