// Package challenges has the commands about what a gate issues and verifies: challenge, capability and hash-payload.
package challenges
