package observe_test

import (
	"net"
	"os"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/test/check"
)

func TestProcess(t *testing.T) {
	for _, tt := range []struct {
		agent, process uint32
		want           look.Result
	}{
		{2000, 1000, look.Holds},
		{2000, 0, look.Holds},
		{1000, 1000, look.Contradicts},
		{0, 1000, look.Contradicts},
		{0, 0, look.Contradicts},
	} {
		if got := (observe.Agent{UID: tt.agent}).Process(tt.process); got.Result != tt.want ||
			got.Name != look.Process || got.Seen == "" {
			t.Errorf("agent %d, process %d: %+v", tt.agent, tt.process, got)
		}
	}
}

// TestFiles judges a file by its own and its folder's owner and mode. The group has the number of the owner.
func TestFiles(t *testing.T) {
	stranger := observe.Agent{UID: agentUID, GIDs: []uint32{agentUID}}
	member := observe.Agent{UID: agentUID, GIDs: []uint32{agentTeam}}
	for _, tt := range []struct {
		name         string
		user         observe.Agent
		folder, file string
		secret, open string // what the user can do with a secret file, and with another one
	}{
		{"others may read", stranger, "4300 755", "4300 644", "read", ""},
		{"others may write", stranger, "4300 755", "4300 622", "write", "write"},
		{"others may do nothing", stranger, "4300 755", "4300 600", "", ""},
		{"the folder is closed to others", stranger, "4300 750", "4300 644", "", ""},
		{"others may list the folder and not pass", stranger, "4300 754", "4300 644", "", ""},
		{"others may write to the folder", stranger, "4300 777", "4300 600", "replace", "replace"},
		{"the folder is sticky", stranger, "4300 1777", "4300 600", "", ""},
		{"others may write to a folder that they cannot pass", stranger, "4300 752", "4300 600", "", ""},
		{"the group may read", member, "4300 755", "4300 640", "read", ""},
		{"the group may read, and is not the agent's", stranger, "4300 755", "4300 640", "", ""},
		{"the group may not, others may", member, "4300 755", "4300 604", "", ""},
		{"the folder is open to the group", member, "4300 770", "4300 600", "replace", "replace"},
		{"the owner", stranger, "4242 700", "4242 400", "replace", "replace"},
		{"root", observe.Agent{UID: 0}, "4300 0", "4300 0", "replace", "replace"},
		{"the agent's folder", stranger, "4242 500", "4243 600", "replace", "replace"},
		{"the agent's file", stranger, "4243 555", "4242 600", "read", "write"},
		{"the agent's file in a sticky folder", stranger, "4243 1777", "4242 600", "replace", "replace"},
		{"another's file in a sticky folder", stranger, "4243 1777", "4244 600", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := tree(t, "dir /d "+tt.folder+", file /d/f "+tt.file)
			judge := func(p observe.Path, can string) {
				t.Helper()
				want := look.Holds
				if can != "" {
					want = look.Contradicts
				}
				if got := files(tt.user, p); got.Result != want || !strings.Contains(got.Seen, can) {
					t.Errorf("%+v: got %+v", p, got)
				}
			}
			judge(observe.Path{Name: root + "/d/f", Secret: true}, tt.secret)
			judge(observe.Path{Name: root + "/d/f"}, tt.open)
			if tt.open == "replace" { // then a missing file can be put there
				judge(observe.Path{Name: root + "/d/later"}, "replace")
			}
		})
	}
}

// files observes files for one user.
func files(user observe.Agent, paths ...observe.Path) look.Observation {
	return observe.LookAtFiles([]observe.Agent{user}, paths...)
}

// A listener asks who connects, so it matters whom it admits and not who may write to the socket.
func TestSockets(t *testing.T) {
	for _, tt := range []struct {
		name, folder, path string
		users              []uint32
		want               look.Result
		word               string
	}{
		{"others may connect and are dropped", "711", "/d/s", []uint32{1}, look.Holds, ""},
		{"the agent is admitted", "711", "/d/s", []uint32{1, agentUID}, look.Contradicts, "connect to"},
		{"the agent is to be admitted", "711", "/d/later", []uint32{agentUID}, look.Contradicts, "connect to"},
		{"the agent is admitted and cannot get there", "700", "/d/s", []uint32{agentUID}, look.Holds, ""},
		{"the agent can put another socket there", "777", "/d/s", nil, look.Contradicts, "replace"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := tree(t, "dir /d 0 "+tt.folder)
			l, err := net.Listen("unix", root+"/d/s")
			check.Must(t, err)
			defer l.Close()
			check.Must(t, os.Chmod(root+"/d/s", 0o666))
			got := files(observe.Agent{UID: agentUID}, observe.Path{Name: root + tt.path, Users: tt.users})
			if got.Result != tt.want || !strings.Contains(got.Seen, tt.word) {
				t.Errorf("got %+v", got)
			}
		})
	}
}
