package mcp_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/actionproof/mediator/proxy/mcp"
)

func BenchmarkRead(b *testing.B) {
	body := fmt.Appendf(nil,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_issue","arguments":{"owner":"a",`+
			`"repo":"b","number":7,"note":%q},"_meta":{"progressToken":1}}}`, strings.Repeat("a note ", 100))
	said := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":%q}],"isError":false}}`,
		strings.Repeat("an issue ", 100))
	h, of, memory := entry{}.header(), rules(""), new(mcp.Memory)
	b.ReportAllocs()
	for b.Loop() {
		m, err := mcp.Read(body, h)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := mcp.Judge(m, h, of, peer, memory); err != nil {
			b.Fatal(err)
		}
		if _, _, result := answer(watch(b, memory, peer, m), http.StatusOK, typed(plain), said); result != mcp.ResultOK {
			b.Fatal(result)
		}
	}
}
