//go:build race

package main

// raceDetector tells that memory of the race detector lies in the resident set, which grows with each goroutine that there ever was.
const raceDetector = true
