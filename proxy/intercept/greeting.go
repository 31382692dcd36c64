package intercept

import (
	"fmt"
	"io"
	"net/http"
	"time"
)

// greetings refuse a client in whose protocol the server speaks first, by the port that it dialled: FTP (RFC 959), SMTP
// (RFC 5321 section 3.1), POP3 (RFC 1939), IMAP (RFC 9051). %s is the reason.
var greetings = map[uint16]string{
	21: "421 %s\r\n", 990: "421 %s\r\n",
	25: "554 %s\r\n", 465: "554 %s\r\n", 587: "554 %s\r\n",
	110: "-ERR %s\r\n", 995: "-ERR %s\r\n",
	143: "* BYE %s\r\n", 993: "* BYE %s\r\n",
}

// greetingPatience is the time in which a client of HTTP that dials such a port sends its first byte.
const greetingPatience = time.Second

// greet tells a redirected client why its connection is refused, in the protocol of the port, and reports whether there
// is one. It records err.
func (c *conn) greet(w io.Writer, err error) bool {
	greeting, ok := greetings[c.route.Original.Port()]
	if ok {
		answer := &refusedConnect{header: make(http.Header)}
		c.p.o.Refuse(answer, connectRequest(c.route), err)
		_, _ = fmt.Fprintf(w, greeting, answer.reason)
	}
	return ok
}
