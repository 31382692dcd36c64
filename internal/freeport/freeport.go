// Package freeport finds addresses for listeners that are told where to listen before they do.
package freeport

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net"
)

// Address returns an address of the loopback that nobody listens on. Its port is below those that the kernel gives to
// connections, from 32768 on: none takes it before somebody listens there.
func Address() (address string, err error) {
	for range 100 {
		var b [2]byte
		_, _ = rand.Read(b[:]) // it never fails
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 1<<14|binary.BigEndian.Uint16(b[:])>>2)); err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", err
}
