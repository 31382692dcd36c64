// Package freeport finds addresses for listeners whose address must be known before they listen.
package freeport

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net"
)

// Address returns a free address of loopback. Its port is below those that the kernel assigns to connections, from
// 32768 on, so no connection takes it meanwhile.
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
