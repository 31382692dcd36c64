package mcp_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/actionproof/mediator/proxy/mcp"
)

func answered(id int) string {
	return fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":{}}\n\n", id)
}

// Servers may end each stream and let the client resume it. A client that restarts counts its ids anew.
func TestResumedAnswersAreNotEarly(t *testing.T) {
	memory := new(mcp.Memory)
	for i := 1; i <= 300; i++ {
		w := begin(t, memory, "tools/call", i, "create_issue")
		a := mcp.NewAnswer(w, 200, http.Header{"Content-Type": {stream}})
		_, _ = io.WriteString(a, fmt.Sprintf("id: e%d\ndata: \n\n", i))
		a.End(errors.New("broken"))
		var got mcp.Result
		memory.Keep(a, 1<<40, func(r mcp.Result) { got = r })
		memory.End(w.Flight, a.Result(), true)
		resume(memory, at, fmt.Sprint("e", i), answered(i))
		if got != mcp.ResultOK {
			t.Fatalf("%d: the resumed result is %s", i, got)
		}
	}
	a, end := send(t, memory, "tools/call", 3, stream, 200)
	say(a, `{"jsonrpc":"2.0","id":3,"result":{}}`)
	if got := end(); got != mcp.ResultOK {
		t.Errorf("after a restart of the client the result is %s", got)
	}
}

func TestEarlyAnswersOfAnotherServer(t *testing.T) {
	memory := new(mcp.Memory)
	for i := range 500 {
		server := fmt.Sprintf("https://evil%d.test/mcp", i%6)
		resume(memory, mcp.Peer{Server: server, Session: "x"}, "", answered(1000+i))
	}
	a, end := send(t, memory, "tools/call", 7, stream, 200)
	say(a, `{"jsonrpc":"2.0","id":7,"result":{}}`)
	if got := end(); got != mcp.ResultOK {
		t.Errorf("the honest server's result is %s", got)
	}
}
