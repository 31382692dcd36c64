package receipts

import (
	"compress/flate"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/actionproof/mediator/evidence/interaction"
)

// Of the first text that a model says in a session, entropy and compression are taken when there are 4, 8, 16 and 32
// KiB of it: figures of texts of one length can be compared.
const (
	maxSample  = 32 << 10
	maxSamples = 4 // models of a session
)

// sample is the first text of a model in a session. It is in memory only, and gone once its last figures are taken.
type sample struct {
	text                       []byte
	bytes, entropy, compressed interaction.Figure
}

// Wants returns how much text of the answer of a model is wanted, in bytes.
func (k *Keeper) Wants(c *Chain, host, model string) int {
	if k == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.memory.samples[host+" "+model]
	switch {
	case !ok && len(c.memory.samples) >= maxSamples:
		return 0
	case !ok:
		return maxSample
	case s.bytes.Value == maxSample:
		return 0
	}
	return maxSample - len(s.text)
}

// sampled adds the text of an answer to the sample of its model, and sets the figures of the sample. One goroutine at a
// time calls it for a chain.
func (c *Chain) sampled(m *interaction.ModelCall, text []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := m.Host + " " + m.Model
	s := c.memory.samples[key]
	if s == nil {
		if len(c.memory.samples) >= maxSamples || !c.take(maxSample) {
			return
		}
		if c.memory.samples == nil {
			c.memory.samples = make(map[string]*sample)
		}
		s = new(sample)
		c.memory.samples[key] = s
	}
	if s.bytes.Value < maxSample {
		s.text = append(s.text, text[:min(len(text), maxSample-len(s.text))]...)
	}
	size := int64(0)
	for step := int64(interaction.MinSample); step <= int64(len(s.text)); step *= 2 {
		size = step
	}
	if size > s.bytes.Value {
		held := s.text[:size]
		c.mu.Unlock()
		entropy, compressed := entropyOf(string(held)), compressionOf(held)
		c.mu.Lock()
		s.bytes, s.entropy = interaction.Observed(size), interaction.Observed(entropy)
		s.compressed = interaction.Observed(compressed)
		if size == maxSample {
			s.text = nil
		}
	}
	m.Figures.SampleBytes, m.Figures.WordEntropy, m.Figures.Compression = s.bytes, s.entropy, s.compressed
}

// entropyOf returns the Shannon entropy of the words of a text with the correction of Miller and Madow, in 1/1000 bit.
func entropyOf(text string) int64 {
	counts, n := make(map[string]int), 0
	for word := range strings.FieldsSeq(text) {
		counts[word]++
		n++
	}
	if n == 0 {
		return 0
	}
	h := float64(len(counts)-1) / (2 * float64(n) * math.Ln2)
	for _, k := range slices.Sorted(maps.Values(counts)) { // in one order, for one sum
		p := float64(k) / float64(n)
		h -= p * math.Log2(p)
	}
	return int64(math.Round(1000 * max(0, h)))
}

// counter counts what is written to it.
type counter int64

func (n *counter) Write(p []byte) (int, error) {
	*n += counter(len(p))
	return len(p), nil
}

// compressors are kept: one takes more than half a MiB.
var compressors = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.DefaultCompression)
	if err != nil {
		panic(err) // of a level that there is not
	}
	return w
}}

// compressionOf returns the size of a text compressed (DEFLATE at the level that is usual), in 1/1000 of its size.
func compressionOf(text []byte) int64 {
	w := compressors.Get().(*flate.Writer)
	defer compressors.Put(w)
	var n counter
	w.Reset(&n)
	_, _ = w.Write(text)
	_ = w.Close()
	return int64(n) * 1000 / int64(len(text))
}
