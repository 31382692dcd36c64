// Package challenge asks for fresh work that is bound to one action, and verifies that it was done (seed: createChallenge,
// solvePublicTask, verifyResponse, verifyCapability).
//
// A [Challenge] holds tasks of several kinds; each has exactly one correct answer, which its generator has proved by solving it. The
// answers never leave the issuer: the challenge's token holds only salted hashes of them, so that verification needs no memory.
package challenge
