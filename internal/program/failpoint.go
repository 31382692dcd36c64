//go:build failpoint

package program

import (
	"os"

	"github.com/actionproof/mediator/internal/failpoint"
)

// init lets a test end this process at a chosen point. MEDIATOR_FAILPOINT names the file that says at which.
func init() {
	if len(os.Args) > 1 {
		failpoint.Arm(os.Args[1], os.Getenv("MEDIATOR_FAILPOINT"))
	}
}
