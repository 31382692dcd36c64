package strictjson

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"hash"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gomodule"
)

func TestRFC8785Text(t *testing.T) {
	const sample = `{
  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}`
	want := strings.Join(strings.Fields(`
7b 22 6c 69 74 65 72 61 6c 73 22 3a 5b 6e 75 6c 6c 2c 74 72
75 65 2c 66 61 6c 73 65 5d 2c 22 6e 75 6d 62 65 72 73 22 3a
5b 33 33 33 33 33 33 33 33 33 2e 33 33 33 33 33 33 33 2c 31
65 2b 33 30 2c 34 2e 35 2c 30 2e 30 30 32 2c 31 65 2d 32 37
5d 2c 22 73 74 72 69 6e 67 22 3a 22 e2 82 ac 24 5c 75 30 30
30 66 5c 6e 41 27 42 5c 22 5c 5c 5c 5c 5c 22 2f 22 7d`), "")
	if got, err := Canonical([]byte(sample)); err != nil || hex.EncodeToString(got) != want {
		t.Errorf("section 3.2.4: %x, %v", got, err)
	}
	const names = `{
  "\u20ac": "Euro Sign",
  "\r": "Carriage Return",
  "\ufb33": "Hebrew Letter Dalet With Dagesh",
  "1": "One",
  "\ud83d\ude00": "Emoji: Grinning Face",
  "\u0080": "Control",
  "\u00f6": "Latin Small Letter O With Diaeresis"
}`
	const ordered = "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"\u00f6\":\"Latin Small Letter " +
		"O With Diaeresis\"," +
		"\"\u20ac\":\"Euro Sign\",\"\U0001F600\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}"
	if got, err := Canonical([]byte(names)); err != nil || string(got) != ordered {
		t.Errorf("section 3.2.3: %s, %v", got, err)
	}
}

func TestRFC8785Files(t *testing.T) {
	dir := filepath.Join(gomodule.Dir(t, "github.com/gowebpki/jcs"), "testdata")
	inputs, err := os.ReadDir(filepath.Join(dir, "input"))
	if err != nil || len(inputs) < 10 {
		t.Fatalf("%d files, %v", len(inputs), err)
	}
	read := func(parts ...string) []byte {
		raw, err := os.ReadFile(filepath.Join(append([]string{dir}, parts...)...))
		check.Must(t, err)
		return raw
	}
	for _, f := range inputs {
		got, err := Canonical(read("input", f.Name()))
		if want := bytes.TrimSuffix(read("output", f.Name()), []byte("\n")); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %s, %v; want %s", f.Name(), got, err, want)
		}
		if f.Name() == "simpleString.json" { // has no hex file
			continue
		}
		want := strings.Join(strings.Fields(string(read("outhex", strings.TrimSuffix(f.Name(), ".json")+".txt"))), "")
		if !strings.EqualFold(hex.EncodeToString(got), want) {
			t.Errorf("%s: %x, want %s", f.Name(), got, want)
		}
	}
}

func TestRFC8785Numbers(t *testing.T) {
	for _, row := range strings.Split(strings.TrimSpace(`
0000000000000000 0
8000000000000000 0
0000000000000001 5e-324
8000000000000001 -5e-324
7fefffffffffffff 1.7976931348623157e+308
ffefffffffffffff -1.7976931348623157e+308
4340000000000000 9007199254740992
c340000000000000 -9007199254740992
4430000000000000 295147905179352830000
44b52d02c7e14af5 9.999999999999997e+22
44b52d02c7e14af6 1e+23
44b52d02c7e14af7 1.0000000000000001e+23
444b1ae4d6e2ef4e 999999999999999700000
444b1ae4d6e2ef4f 999999999999999900000
444b1ae4d6e2ef50 1e+21
3eb0c6f7a0b5ed8c 9.999999999999997e-7
3eb0c6f7a0b5ed8d 0.000001
41b3de4355555553 333333333.3333332
41b3de4355555554 333333333.33333325
41b3de4355555555 333333333.3333333
41b3de4355555556 333333333.3333334
41b3de4355555557 333333333.33333343
becbf647612f3696 -0.0000033333333333333333
43143ff3c1cb0959 1424953923781206.2`), "\n") {
		bits, want, _ := strings.Cut(row, " ")
		u, err := strconv.ParseUint(bits, 16, 64)
		check.Must(t, err)
		for _, format := range []byte{'e', 'f', 'g'} {
			spelled := strconv.FormatFloat(math.Float64frombits(u), format, -1, 64)
			if got, err := Canonical([]byte(spelled)); err != nil || string(got) != want {
				t.Errorf("%s, spelled %s: %s, %v; want %s", bits, spelled, got, err, want)
			}
		}
		if got, err := Canonical([]byte(want)); err != nil || string(got) != want {
			t.Errorf("%s is not its own canonical form: %s, %v", want, got, err)
		}
	}
	// the table's 7fffffffffffffff and 7ff0000000000000
	for _, none := range []string{"NaN", "Infinity", "-Infinity", "1e309"} {
		if got, err := Canonical([]byte(none)); err == nil {
			t.Errorf("%s becomes %s", none, got)
		}
	}
}

// es6Checksums are the published checksums of the ES6 number sequence, by the number of lines
// (github.com/cyberphone/json-canonicalization, testdata/README.md).
var es6Checksums = map[int]string{
	1_000:       "be18b62b6f69cdab33a7e0dae0d9cfa869fda80ddc712221570f9f40a5878687",
	10_000:      "b9f7a8e75ef22a835685a52ccba7f7d6bdc99e34b010992cbc5864cd12be6892",
	100_000:     "22776e6d4b49fa294a0d0f349268e5c28808fe7e0cb2bcbe28f63894e494d4c7",
	1_000_000:   "49415fee2c56c77864931bd3624faad425c3c577d6d74e89a83bc725506dad16",
	10_000_000:  "b9f8a44a91d46813b21b9602e72f112613c91408db0b8341fb94603d9db135e0",
	100_000_000: "0f7dda6b0837dde083c5d6b896f7d62340c8a2415b0c7121d83145e08a755272",
}

var es6Count = flag.Int("es6", 100_000,
	"how many doubles of the ES6 number sequence are checked; up to 100000000 have published checksums")

func TestES6Numbers(t *testing.T) {
	next, sum := es6Doubles(t), sha256.New()
	const batch = 500
	for done := 0; done < *es6Count; done += batch {
		es6Lines(t, sum, next, batch)
		if want, ok := es6Checksums[done+batch]; ok {
			if got := hex.EncodeToString(sum.Sum(nil)); got != want {
				t.Fatalf("the first %d lines have checksum %s, want %s", done+batch, got, want)
			}
		}
	}
}

// es6Lines canonicalises the next n doubles, written with exponents, and adds their lines to sum.
func es6Lines(t *testing.T, sum hash.Hash, next func() float64, n int) {
	t.Helper()
	doubles := make([]float64, n)
	spelled := []byte{'['}
	for i := range doubles {
		doubles[i] = next()
		spelled = append(strconv.AppendFloat(spelled, doubles[i], 'e', -1, 64), ',')
	}
	spelled[len(spelled)-1] = ']'
	canonical, err := Canonical(spelled)
	check.Must(t, err)
	for i, number := range strings.Split(string(canonical[1:len(canonical)-1]), ",") {
		fmt.Fprintf(sum, "%x,%s\n", math.Float64bits(doubles[i]), number)
	}
}

// es6Doubles returns the sequence: a file, then 2000 doubles from the smallest normal one, then a chain of SHA-256 over
// 32 zero bytes in little-endian order, without zeros, infinities and NaNs.
func es6Doubles(t *testing.T) func() float64 {
	t.Helper()
	raw, err := os.ReadFile("testdata/rfc8785/es6-doubles.txt")
	check.Must(t, err)
	var first []uint64
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for _, word := range strings.Fields(line) {
			u, err := strconv.ParseUint(word, 16, 64)
			check.Must(t, err)
			first = append(first, u)
		}
	}
	const smallestNormal = 0x0010000000000000
	for i := range uint64(2000) {
		first = append(first, smallestNormal+i)
	}
	var block [sha256.Size]byte
	var rest []byte
	random := func() float64 {
		for {
			if len(rest) == 0 {
				block = sha256.Sum256(block[:])
				rest = block[:]
			}
			f := math.Float64frombits(binary.LittleEndian.Uint64(rest))
			rest = rest[8:]
			if f != 0 && !math.IsNaN(f) && !math.IsInf(f, 0) {
				return f
			}
		}
	}
	return func() float64 {
		if len(first) == 0 {
			return random()
		}
		u := first[0]
		first = first[1:]
		return math.Float64frombits(u)
	}
}
