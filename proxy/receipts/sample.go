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

// Entropy and compression are measured on 4, 8, 16 and 32 KiB: only texts of one length are comparable.
const (
	maxSample  = 32 << 10
	maxSamples = 4 // models in a session
)

// A sample stays in memory until the last measurement.
type sample struct {
	text                       []byte
	bytes, entropy, compressed interaction.Figure
}

// Wants returns how many bytes to sample.
func (c *Chain) Wants(host, model string) int {
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

// A chain calls sampled from one goroutine at a time.
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

// entropyOf returns the Shannon entropy of words, Miller-Madow corrected, in 1/1000 bit.
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
	for _, k := range slices.Sorted(maps.Values(counts)) { // a fixed order gives a fixed sum
		p := float64(k) / float64(n)
		h -= p * math.Log2(p)
	}
	return int64(math.Round(1000 * max(0, h)))
}

type counter int64

func (n *counter) Write(p []byte) (int, error) {
	*n += counter(len(p))
	return len(p), nil
}

// compressors are reused, because each takes more than half a MiB.
var compressors = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.DefaultCompression)
	if err != nil {
		panic(err) // only for an unknown level
	}
	return w
}}

// compressionOf returns the compressed size in 1/1000 of the size.
func compressionOf(text []byte) int64 {
	w := compressors.Get().(*flate.Writer)
	defer compressors.Put(w)
	var n counter
	w.Reset(&n)
	_, _ = w.Write(text)
	_ = w.Close()
	return int64(n) * 1000 / int64(len(text))
}
