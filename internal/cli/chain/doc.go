// Package chain has the commands that export and check a chain of evidence: posts export and open, verify, log audit.
package chain
