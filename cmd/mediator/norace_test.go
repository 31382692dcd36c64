//go:build !race

package main

// raceDetector tells that nothing but the program's own memory lies in the resident set.
const raceDetector = false
