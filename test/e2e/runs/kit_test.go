package runs

import (
	"testing"

	"github.com/actionproof/mediator/test/e2e/kit"
)

func TestMain(m *testing.M) {
	kit.Main(m, map[string]func(args []string) int{"way": runWay, "denied": runDenied})
}
