package erc8004

import "math/big"

const word = 32 // bytes

// encode returns a call's data by the contract ABI of Solidity: a selector, a word for each argument, and the texts,
// whose words have their offsets. An argument is a whole number from 0, a hash or a text.
func encode(function string, args ...any) []byte {
	selector := keccak([]byte(function))
	var head, tail []byte
	for _, arg := range args {
		switch v := arg.(type) {
		case int64:
			head = number(head, v)
		case [word]byte:
			head = append(head, v[:]...)
		case string:
			head = number(head, int64(word*len(args)+len(tail)))
			tail = append(number(tail, int64(len(v))), v...)
			tail = append(tail, make([]byte, -len(tail)&(word-1))...)
		}
	}
	return append(append(selector[:4], head...), tail...)
}

func number(to []byte, v int64) []byte {
	return append(to, big.NewInt(v).FillBytes(make([]byte, word))...)
}
