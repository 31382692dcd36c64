package cli_test

import (
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/test/check"
)

func TestTableRow(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	table := cli.Table(&out)
	table.Row("a\nb\tc\fd\ve\xff", "f")
	check.Must(t, table.Flush())
	if got := out.String(); got != "a?b?c?d?e\ufffd  f\n" {
		t.Errorf("%q", got)
	}
}
