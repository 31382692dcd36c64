package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/test/check"
)

func TestConsole(t *testing.T) {
	const good = "issuer: https://id.example/tenant\nclientId: c\ngroups: [security]\n"
	for name, tt := range map[string]struct{ file, says string }{
		"good":                    {good, ""},
		"no groups":               {"issuer: https://id.example\nclientId: c\n", "groups: is required"},
		"an issuer without TLS":   {strings.Replace(good, "https", "http", 1), "issuer: must be an https URL"},
		"an issuer with a query":  {strings.Replace(good, "/tenant", "/?tenant=a", 1), "issuer: must be an https URL"},
		"a certificate alone":     {good + "tlsCertificate: a.pem\n", "tlsCertificate: goes together with tlsKey"},
		"no secret":               {good + "secretFile: absent\n", "secretFile"},
		"no authorities":          {good + "issuerCA: absent\n", "issuerCA"},
		"an empty group":          {good + "summaryGroups: ['']\n", "summaryGroups: has an empty item"},
		"a misspelt key of roles": {good + "summarygroups: [a]\n", "summarygroups"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "console.yaml")
			check.Must(t, os.WriteFile(path, []byte(tt.file), 0o600))
			c, err := config.Load[config.Console](path)
			switch {
			case tt.says == "":
				check.Must(t, err)
				check.WantEqual(t, c.GroupsClaim, "groups")
			case err == nil || !strings.Contains(err.Error(), tt.says):
				t.Errorf("got %v, want %q", err, tt.says)
			}
		})
	}
}
