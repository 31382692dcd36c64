package autonomy

import (
	"time"
)

// bytesPerToken is the mean length of a token of English text.
const bytesPerToken = 4.2

// model is the speed of a model behind a host. The README names the sources.
type model struct {
	name        string
	as          string // name in answers
	host        string
	first       time.Duration // median time to the first token
	firstSpread float64       // of its logarithm
	prefill     float64       // tokens read per second
	speed       float64       // median tokens written per second
	speedSpread float64       // from call to call
	jitter      float64       // from piece to piece
	reasons     float64       // probability of reasoning
	fails       float64       // probability of failure
	declares    bool          // token counts
	inflates    float64       // factor of declared tokens; 0 is 1
	exact       bool          // exact counts, no stalls
}

// The models of trusted providers.
var providers = []model{
	{
		name: "gpt-5.4", as: "gpt-5.4-2026-03-05", host: "api.openai.com:443",
		first: 912 * time.Millisecond, firstSpread: 0.35, prefill: 9000, speed: 45, speedSpread: 0.18, jitter: 0.5,
		reasons: 0.6, fails: 0.006, declares: true,
	},
	{
		name: "gpt-4o-mini", as: "gpt-4o-mini-2024-07-18", host: "api.openai.com:443",
		first: 645 * time.Millisecond, firstSpread: 0.32, prefill: 15000, speed: 105, speedSpread: 0.2, jitter: 0.6,
		fails: 0.004, declares: true,
	},
	{
		name: "claude-sonnet-4-6", as: "claude-sonnet-4-6", host: "api.anthropic.com:443", first: 1500 * time.Millisecond,
		firstSpread: 0.4, prefill: 7000, speed: 50, speedSpread: 0.17, jitter: 0.5,
		reasons: 0.4, fails: 0.012, declares: true,
	},
	{
		name: "claude-haiku-4-5", as: "claude-haiku-4-5-20251001", host: "api.anthropic.com:443",
		first: 700 * time.Millisecond, firstSpread: 0.3, prefill: 14000, speed: 95, speedSpread: 0.2, jitter: 0.5,
		fails: 0.009, declares: true,
	},
	{
		name: "claude-opus-4-6", as: "claude-opus-4-6", host: "api.anthropic.com:443",
		first: 1700 * time.Millisecond, firstSpread: 0.4, prefill: 5000, speed: 68, speedSpread: 0.2, jitter: 0.5,
		reasons: 0.5, fails: 0.015, declares: true,
	},
	{
		name: "gemini-2.5-flash", as: "gemini-2.5-flash", host: "generativelanguage.googleapis.com:443",
		first: 480 * time.Millisecond, firstSpread: 0.6, prefill: 20000, speed: 205, speedSpread: 0.25, jitter: 0.8,
		reasons: 0.2, fails: 0.008, declares: true,
	},
	{
		name: "deepseek-chat", as: "deepseek-v3.2", host: "api.deepseek.com:443",
		first: 1400 * time.Millisecond, firstSpread: 0.63, prefill: 5000, speed: 26, speedSpread: 0.2, jitter: 0.6,
		reasons: 0.1, fails: 0.01, declares: true,
	},
	{
		name: "meta-llama/llama-3.3-70b-instruct", as: "llama-3.3-70b", host: "openrouter.ai:443",
		first: 761 * time.Millisecond, firstSpread: 0.65, prefill: 6000, speed: 48, speedSpread: 0.35, jitter: 0.8,
		fails: 0.015, declares: true,
	},
}

// BelievedHosts are the hosts of these providers.
var BelievedHosts = []string{
	"api.openai.com:443", "api.anthropic.com:443", "generativelanguage.googleapis.com:443", "api.deepseek.com:443",
	"openrouter.ai:443",
}

// Local models.
var (
	localGPU = model{
		name: "llama3.1:8b", as: "llama3.1:8b", host: "llm.internal:11434",
		first: 180 * time.Millisecond, firstSpread: 0.25, prefill: 2500, speed: 110, speedSpread: 0.04, jitter: 0.12,
		fails: 0.001, declares: true,
	}
	localSlow = model{
		name: "qwen2.5:32b", as: "qwen2.5:32b", host: "llm.internal:8080",
		first: 900 * time.Millisecond, firstSpread: 0.3, prefill: 180, speed: 9, speedSpread: 0.06, jitter: 0.15,
		fails: 0.002, declares: true,
	}
	localCPU = model{
		name: "llama3.1:8b-q4", as: "llama3.1:8b-q4", host: "127.0.0.1:8080",
		first: 1500 * time.Millisecond, firstSpread: 0.3, prefill: 60, speed: 5, speedSpread: 0.1, jitter: 0.2, fails: 0.002,
	}
)

// under returns the model under a random load.
func (m model) under(d random) *model {
	load := d.factor(0.15)
	m.first, m.speed = time.Duration(float64(m.first)*load), m.speed/load
	return &m
}

// waits returns the time to the first token.
func (m *model) waits(d random, input, hidden int) time.Duration {
	t := d.about(m.first, m.firstSpread) + seconds(float64(input)/m.prefill)
	if !m.exact && d.chance(0.01) { // a queue
		t += d.rare(6 * time.Second)
	}
	return t + seconds(float64(hidden)/m.speed)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
