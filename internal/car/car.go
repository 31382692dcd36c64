// Package car writes a file as a CAR (Content Addressable aRchive, version 1), which every IPFS node and gateway can
// import. The file's CID depends on its content alone, and equals the one that npm's ipfs-car computes.
package car

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

const (
	chunk     = 1 << 20 // bytes of a leaf, as ipfs-car cuts files
	maxChunks = 1024    // links of a node, as ipfs-car makes them; more would need nodes between root and leaves

	raw   = 0x55 // codecs of a CID
	dagPB = 0x70
)

// cid is a CIDv1 with a SHA-256 multihash, in bytes.
type cid []byte

func cidOf(codec byte, block []byte) cid {
	hash := sha256.Sum256(block)
	return append([]byte{1, codec, 0x12, sha256.Size}, hash[:]...)
}

func (c cid) String() string {
	return "b" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(c))
}

// Write writes the CAR of a file, which it reads twice, and returns the CID of the file. The file has at most 1 GiB.
func Write(to io.Writer, file io.ReadSeeker) (string, error) {
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return "", err
	}
	if size > maxChunks*chunk {
		return "", fmt.Errorf("the file has %d bytes, but a CAR takes at most %d", size, maxChunks*chunk)
	}
	var leaves []cid
	var sizes []uint64
	err = chunks(file, func(block []byte) error {
		leaves, sizes = append(leaves, cidOf(raw, block)), append(sizes, uint64(len(block)))
		return nil
	})
	if err != nil {
		return "", err
	}
	root, node := leaves[0], []byte(nil)
	if len(leaves) > 1 {
		node = fileNode(leaves, sizes)
		root = cidOf(dagPB, node)
	}
	// In DAG-CBOR: {"roots": [root], "version": 1}. Tag 42 marks a CID, which begins with a zero byte.
	header := append([]byte("\xa2\x65roots\x81\xd8\x2a\x58\x25\x00"), root...)
	if err := section(to, append(header, "\x67version\x01"...)); err != nil {
		return "", err
	}
	err = chunks(file, func(block []byte) error { return section(to, cidOf(raw, block), block) })
	if err == nil && node != nil {
		err = section(to, root, node)
	}
	return root.String(), err
}

// chunks calls each with the blocks of a file: with an empty one if the file is empty.
func chunks(file io.ReadSeeker, each func(block []byte) error) error {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	buffer := make([]byte, chunk)
	for first := true; ; first = false {
		n, err := io.ReadFull(file, buffer)
		if err == io.EOF && !first {
			return nil
		}
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return err
		}
		if err := each(buffer[:n]); err != nil {
			return err
		}
	}
}

// section writes the parts as one section of a CAR, after their length.
func section(to io.Writer, parts ...[]byte) error {
	all := bytes.Join(parts, nil)
	_, err := to.Write(append(binary.AppendUvarint(nil, uint64(len(all))), all...))
	return err
}

// fileNode encodes the node of a file with several leaves: DAG-PB with the links, and UnixFS data with their sizes.
func fileNode(leaves []cid, sizes []uint64) (node []byte) {
	var total uint64
	var blocks []byte
	for i, leaf := range leaves {
		link := field(nil, 1, leaf)
		link = field(link, 2, nil) // an empty name
		link = number(link, 3, sizes[i])
		node = field(node, 2, link)
		total += sizes[i]
		blocks = number(blocks, 4, sizes[i])
	}
	const file = 2 // the type of a UnixFS node
	data := number(number(nil, 1, file), 3, total)
	return field(node, 1, append(data, blocks...))
}

// field appends a field of bytes in the encoding of protocol buffers.
func field(to []byte, id byte, value []byte) []byte {
	return append(binary.AppendUvarint(append(to, id<<3|2), uint64(len(value))), value...)
}

// number appends a field with a whole number in the encoding of protocol buffers.
func number(to []byte, id byte, value uint64) []byte {
	return binary.AppendUvarint(append(to, id<<3), value)
}
