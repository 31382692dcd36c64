// Package challenges has the commands about challenges: challenge, capability and hash-payload.
package challenges
