package pages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/full"
)

// asPageSays prepares what docs/operations/running.md takes for granted: an empty machine with the program. Namespaces
// and overlays keep the page's users, folders and ports from the machine that the test runs on.
const asPageSays = `ip link set lo up
mount -t tmpfs none "$T"
mkdir "$T/bin" && touch "$T/bin/mediator"
mount --bind "$SELF" "$T/bin/mediator" && mount --rbind "$T/bin" /usr/local/bin
for f in etc var; do
	mkdir "$T/$f" "$T/$f.work"
	mount -t overlay overlay -o "lowerdir=/$f,upperdir=$T/$f,workdir=$T/$f.work" /$f
done
mount -t tmpfs none /run
trap '[ $? = 0 ] || cat /run/log' EXIT
until_it() { until "$@"; do test "$(jobs -pr | wc -l)" = 3; sleep .1; done; } # while the three processes run
`

const theExamples = `cp "$CONFIGS"/*.yaml . && mkdir secrets
secret() { for f in $(grep -oh 'secrets/[a-z-]*' $1 | sort -u); do
	head -c 30 /dev/urandom | base64 >$f && chmod 0400 $f && chown $2 $f
done; }
secret mediator.yaml mediator-sidecar
secret trigger.yaml mediator-trigger
`

// TestRunningPage runs the steps of docs/operations/running.md as they are written, with each process and the agent as
// a user of its own.
func TestRunningPage(t *testing.T) {
	t.Parallel()
	full.Only(t, "root, curl, useradd, setpriv, overlayfs")
	configs, err := filepath.Abs("../../../configs")
	check.Must(t, err)
	var pin string
	for _, s := range kit.ReadPage(t, "../../../docs/operations/reload.md") {
		if s.Title == "Pin" {
			pin = strings.Join(s.Commands, "\n")
		}
	}
	script := asPageSays
	for _, command := range kit.ReadPage(t, "../../../docs/operations/running.md")[1].Commands {
		command = strings.TrimSpace(command)
		switch {
		case strings.HasPrefix(command, "setpriv "):
			script += command + " >>/run/log 2>&1 &\n"
		case strings.HasPrefix(command, "sed "): // step 3, and step 4 after it
			script += theExamples + command + "\nmediator config check *.yaml\n" + pin
		case strings.HasPrefix(command, "mediator keys certify "):
			script += "for p in admin trigger control; do until_it test -S /run/mediator/$p.sock; done\n" + command + "\n"
			script += "for p in admin trigger control; do until_it curl -sf --unix-socket /run/mediator/$p.sock -o /dev/null " +
				"http://mediator/readyz; done\n"
		case strings.HasPrefix(command, "eval "):
			script += "send() { echo \"{\\\"action\\\": \\\"published\\\", \\\"n\\\": $1}\" >/run/event.json && mediator " +
				"events send github /run/event.json --config trigger.yaml; }\n" +
				"send 1 && mediator run -- curl -s http://mediator.internal/v1/rules\n" +
				"send 2 && setpriv --reuid=agent --regid=agent --clear-groups bash -ec '" + command +
				"\ncurl -s \"http://mediator.internal/v1/event/next?wait=30s\"'\n"
		default:
			script += command + "\n"
		}
	}
	script += "mediator doctor | grep -A2 ' agentSessionSignerAccessibleToAgent:'\n"

	out, err := apart(t, ".", "", []string{"T=" + t.TempDir(), "SELF=" + kit.Self(t), "CONFIGS=" + configs,
		"PATH=/usr/local/bin:" + os.Getenv("PATH")}, kit.Need(t, "bash"), "-euo", "pipefail", "-c", script)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wantSaid(t, out, "trigger.yaml: a correct trigger service", "0 issues", "certified 8 keys into trust/trust.json",
		`"rules":[{"name":"github-comment"`, `"evidenceId"`,
		"observed true  agentSessionSignerAccessibleToAgent: false")
}
