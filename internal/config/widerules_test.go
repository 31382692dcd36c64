package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/config/secrets"
	"github.com/actionproof/mediator/internal/strict"
	"github.com/actionproof/mediator/test/check"
)

func TestWideRules(t *testing.T) {
	for rules, want := range map[string]string{
		"GET https://*.com/**":                                "wide 0",
		"GET https://*.co.uk/**":                              "wide 0",
		"GET https://*.github.io/x":                           "wide 0",
		"GET https://*.example.com/**":                        "",
		"GET https://*.internal/**":                           "",
		"POST https://*.example.com/x":                        "wide 0",
		"GET,POST https://a.test/**":                          "wide 0",
		"POST https://a.test/x/**":                            "",
		"GET https://a.test/** GET https://a.test/x":          "shadowed 1",
		"GET https://a.test/{x} GET https://a.test/x":         "shadowed 1",
		"GET https://a.test/{x}/y GET https://a.test/**":      "shadowed 0",
		"GET https://*.a.test/** GET https://b.a.test/x":      "shadowed 1",
		"GET https://a.test/** GET,HEAD https://a.test/x":     "",
		"GET https://a.test/** GET http://a.test/x":           "",
		"GET https://a.test/x/{y} GET https://a.test/{x}/y":   "",
		"GET https://a.test/x GET https://a.test/**":          "shadowed 0",
		"GET https://a.test/** GET https://a.test/x !":        "",
		"GET https://b.a.test/** GET https://*.a.test/**":     "shadowed 0",
		"GET https://a.test/x/** GET https://a.test/x/y/**":   "shadowed 1",
		"GET https://a.test/{x}/{y} GET https://a.test/x/y/z": "",
	} {
		var c Sidecar
		f, words := &findings{File: new(strict.File)}, strings.Fields(rules)
		for i := 0; i+1 < len(words); i += 2 {
			c.Egress = append(c.Egress, Egress{Rule: Rule{Name: fmt.Sprint("r", i/2), Sign: "none",
				Match: Match{URL: words[i+1], Methods: strings.Split(words[i], ",")}}})
		}
		if len(words)%2 == 1 {
			c.Egress[1].Credential = &secrets.Credential{File: "x"}
		}
		for i, e := range c.Egress {
			e.Credential = nil
			c.addEgress(fmt.Sprint(i), e, f)
		}
		check.Must(t, f.Err())
		var got []string
		for _, w := range c.judgeRules(time.Now()) {
			got = append(got, strings.NewReplacer("rule_", "", "egress[", "", "].match", "", "]",
				"").Replace(w.Code+" "+w.Key))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: got %q, want %q", rules, got, want)
		}
	}
}
