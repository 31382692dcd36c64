package xray

import (
	"strings"
	"testing"

	"github.com/actionproof/mediator/reputation/verification"
)

// FuzzAnswers: any answer is read within its bounds, and a no is never a yes.
func FuzzAnswers(f *testing.F) {
	for _, s := range []string{
		`{"decision":"approve","resonance":0.8}`,
		`{"results":[{"proposalId":"p","finalDecision":"approve"}],"overallDecision":"reject"}`,
		`{"results":null,"resonanceScore":1}`,
		`{"codexCheck":{"score":88},"complianceScore":90}`, `{"score":1e400}`, `{"result":{"score":-0.5}}`,
		`{"success":true,"status":"failed"}`, "**Success:** ✅ COMPLETED\n", "**Success:** FAILED", `[]`, ``,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		for name, read := range map[string]func([]byte) (verification.Answer, error){
			"orchestrate": orchestrated, "enforce": enforced,
			"govern": func(raw []byte) (verification.Answer, error) { return governed(raw, "p") },
		} {
			a, err := read([]byte(answer))
			if err != nil {
				if a != (verification.Answer{}) {
					t.Errorf("%s: %+v beside %v", name, a, err)
				}
				continue
			}
			if a.Status != verification.GatePassed && a.Status != verification.GateFailed || a.Score < 0 || a.Score > 100 ||
				a.Resonance < 0 || a.Resonance > 1000 {
				t.Errorf("%s: %+v", name, a)
			}
			if name == "govern" && a.Status == verification.GatePassed &&
				!strings.Contains(strings.ToLower(answer), "approve") && !strings.Contains(answer, `\u`) {
				t.Errorf("%q is an approval", answer)
			}
		}
	})
}
