//go:build race

package main

// raceDetector tells that memory of the race detector lies in the resident set, and grows while that of the program does not.
const raceDetector = true
