package challenge

import (
	"strconv"
	"strings"
)

// words splits a line into one to four words with single spaces between them; any other line has 0.
func words(line string) (w [4]string, n int) {
	for rest, more := line, true; more; n++ {
		if n == len(w) {
			return w, 0
		}
		if w[n], rest, more = strings.Cut(rest, " "); w[n] == "" {
			return w, 0
		}
	}
	return w, n
}

// line is the inverse of words for two words and a number.
func line(op, x string, n int) string {
	b := append(append(append(make([]byte, 0, 32), op...), ' '), x...)
	return string(strconv.AppendInt(append(b, ' '), int64(n), 10))
}

func number(s string, low, high int) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= low && n <= high
}

// letter reads a name of one letter, from a to the n-th, as an index.
func letter(s string, n int) (int, bool) {
	if len(s) != 1 || s[0] < 'a' || int(s[0]-'a') >= n {
		return 0, false
	}
	return int(s[0] - 'a'), true
}

// name is the inverse of letter.
func name(i int) string { return string(rune('a' + i)) }

func appendList(b []byte, numbers []int) []byte {
	for i, n := range numbers {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return b
}
