// Package chain has the commands that take a chain of evidence out and check it: posts export and verify.
package chain
