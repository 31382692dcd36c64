//go:build race

package client_test

// raceDetector tells that everything takes ten times as long.
const raceDetector = true
