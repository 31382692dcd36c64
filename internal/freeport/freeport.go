// Package freeport finds addresses for listeners whose address must be known before they listen.
package freeport

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
)

// held are UDP sockets that keep all other callers, also in other processes, from getting the same port.
var held struct {
	sync.Mutex
	sockets []net.PacketConn
}

// Address returns a free loopback address that no other caller gets while this process lives. The kernel assigns ports
// from 32768 on to connections, so none takes this lower one.
func Address() (address string, err error) {
	held.Lock()
	defer held.Unlock()
	for range 100 {
		var b [2]byte
		_, _ = rand.Read(b[:]) // it never fails
		address = fmt.Sprintf("127.0.0.1:%d", 1<<14|binary.BigEndian.Uint16(b[:])>>2)
		var l net.Listener
		if l, err = net.Listen("tcp", address); err != nil {
			continue
		}
		_ = l.Close()
		var socket net.PacketConn
		if socket, err = net.ListenPacket("udp", address); err == nil {
			held.sockets = append(held.sockets, socket)
			return address, nil
		}
	}
	return "", err
}
