// Package chain has the commands about chains of evidence: evidence show, verify and export.
package chain
