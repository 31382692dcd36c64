package viewer_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/viewer"
	"github.com/actionproof/mediator/test/check"
)

// TestWrite: nothing that a page holds ends its element, and the policy permits the page's own script and style. The
// browser's view is in test/e2e/viewer.
func TestWrite(t *testing.T) {
	t.Parallel()
	const hostile = `</script><script>alert(1)</script><!--{{script}}{{data}}`
	p := viewer.Page{Name: hostile, Export: []byte(hostile), LogPolicy: hostile, By: hostile,
		Pins: []viewer.Pins{{Registry: hostile, Auditor: hostile, Bundle: hostile}}}
	var out strings.Builder
	check.Must(t, p.Write(&out))
	text := out.String()
	if strings.Contains(text, hostile) {
		t.Error("a text is in the page as it is")
	}
	_, policy, _ := strings.Cut(text, `http-equiv="Content-Security-Policy" content="`)
	policy, _, _ = strings.Cut(policy, `"`)
	for element, directive := range map[string]string{"style": "style-src ", "script": "script-src "} {
		if n := strings.Count(text, "</"+element+">"); n != map[string]int{"style": 1, "script": 2}[element] {
			t.Errorf("%d of </%s>", n, element)
		}
		_, content, _ := strings.Cut(text, "<"+element+">")
		content, _, _ = strings.Cut(content, "</"+element+">")
		sum := sha256.Sum256([]byte(content))
		want := directive + "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "';"
		if !strings.Contains(policy, want) {
			t.Errorf("%q lacks %s", policy, want)
		}
	}
	if !strings.HasPrefix(policy, "default-src 'none'; ") {
		t.Errorf("the policy is %q", policy)
	}
	_, data, _ := strings.Cut(text, `id="data">`)
	data, _, _ = strings.Cut(data, "</script>")
	var held viewer.Page
	check.Must(t, json.Unmarshal([]byte(data), &held))
	if held.Name != hostile || string(held.Export) != hostile || held.Pins[0] != p.Pins[0] {
		t.Errorf("the page holds %+v", held)
	}
}
