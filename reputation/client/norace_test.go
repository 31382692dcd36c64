//go:build !race

package client_test

// raceDetector tells that nothing slows the tests down.
const raceDetector = false
