package clients

import (
	"testing"

	"github.com/actionproof/mediator/test/e2e/kit"
)

func TestMain(m *testing.M) { kit.Main(m, nil) }
