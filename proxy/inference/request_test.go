package inference_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/actionproof/mediator/proxy/inference"
)

const (
	ambiguous = "message_ambiguous"
	malformed = "message_malformed"
	hosted    = "model_hosted_tool"
)

// TestReadRequest judges requests of each dialect. with is what stands in the smallest request beside what makes it
// one.
func TestReadRequest(t *testing.T) {
	chat, responses, messages := inference.OpenAIChat, inference.OpenAIResponses, inference.AnthropicMessages
	for _, tt := range []struct {
		name    string
		dialect inference.Dialect
		with    string
		code    string
		by      string // what is hosted, which a rule may list
	}{
		{"nothing", chat, ``, "", ""},
		{"known members", chat,
			`"temperature":0.5,"stream":true,"stream_options":{"include_usage":true},"response_format":{"type":"json_object"},"top_k":3`, "", ""},
		{"function", chat,
			`"tools":[{"type":"function","function":{"name":"f","parameters":{}}},{"type":"custom","custom":{"name":"c"}}]`, "",
			""},
		{"functions", chat, `"functions":[{"name":"f"}]`, "", ""},
		{"function of a type", chat, `"functions":[{"name":"f","type":"web_search"}]`, hosted, "web_search"},
		{"web search", chat, `"web_search_options":{}`, hosted, "web_search_options"},
		{"web search unset", chat, `"web_search_options":null`, "", ""},
		{"tool of another server", chat, `"tools":[{"type":"browser_search"}]`, hosted, "browser_search"},
		{"tool without a type", chat, `"tools":[{"function":{"name":"f"}}]`, hosted, inference.Untyped},
		{"unknown member", chat, `"plugins":[{"id":"web"}]`, hosted, "plugins"},
		{"unknown switch", chat, `"enable_search":true`, hosted, "enable_search"},
		{"unknown switch off", chat, `"enable_search":false,"plugins":[]`, "", ""},
		{"unknown member with a text for a name", chat, `"a text":1`, hosted, ""},
		{"data sources", chat, `"data_sources":[{"type":"azure_search"}]`, hosted, "data_sources"},
		{"model twice", chat, `"model":"other"`, ambiguous, ""},
		{"model in two cases", chat, `"Model":"other"`, ambiguous, ""},
		{"tools in two cases, deeper", chat, `"tools":[{"type":"function","Type":"mcp"}]`, ambiguous, ""},
		{"tools that are no list", chat, `"tools":{"type":"mcp"}`, malformed, ""},
		{"stream that is a text", chat, `"stream":"true"`, malformed, ""},

		{"nothing", responses, ``, "", ""},
		{"the agent's tools", responses,
			`"tools":[{"type":"function","name":"f"},{"type":"custom","name":"c"},{"type":"local_shell"},{"type":"apply_patch"},{"type":"computer_use_preview"},{"type":"shell","environment":{"type":"local"}},{"type":"tool_search","execution":"client"}]`, "", ""},
		{"web search", responses, `"tools":[{"type":"web_search"}]`, hosted, "web_search"},
		{"web search preview", responses, `"tools":[{"type":"web_search_preview"}]`, hosted, "web_search_preview"},
		{"dated web search", responses, `"tools":[{"type":"web_search_2025_08_26"}]`, hosted, "web_search_2025_08_26"},
		{"file search", responses, `"tools":[{"type":"file_search"}]`, hosted, "file_search"},
		{"code interpreter", responses, `"tools":[{"type":"code_interpreter"}]`, hosted, "code_interpreter"},
		{"image generation", responses, `"tools":[{"type":"image_generation"}]`, hosted, "image_generation"},
		{"programmatic calls", responses, `"tools":[{"type":"programmatic_tool_calling"}]`, hosted,
			"programmatic_tool_calling"},
		{"mcp", responses, `"tools":[{"type":"mcp","server_label":"x","server_url":"https://mcp.example.com"}]`, hosted,
			"mcp"},
		{"shell in a container", responses, `"tools":[{"type":"shell","environment":{"type":"container_auto"}}]`, hosted,
			"shell"},
		{"shell somewhere", responses, `"tools":[{"type":"shell"}]`, hosted, "shell"},
		{"search of tools by the provider", responses, `"tools":[{"type":"tool_search"}]`, hosted, "tool_search"},
		{"namespace", responses, `"tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]}]`, "",
			""},
		{"mcp in a namespace", responses, `"tools":[{"type":"namespace","name":"n","tools":[{"type":"mcp"}]}]`, hosted,
			"mcp"},
		{"namespace in a namespace", responses, `"tools":[{"type":"namespace","name":"n","tools":[{"type":"namespace"}]}]`,
			hosted, "namespace"},
		{"background", responses, `"background":true`, hosted, "background"},
		{"not in the background", responses, `"background":false`, "", ""},
		{"conversation", responses, `"conversation":"conv_1"`, hosted, "conversation"},
		{"previous response", responses, `"previous_response_id":"resp_1"`, hosted, "previous_response_id"},
		{"prompt template", responses, `"prompt":{"id":"pmpt_1"}`, hosted, "prompt"},

		{"nothing", messages, ``, "", ""},
		{"the agent's tools", messages,
			`"tools":[{"name":"f","input_schema":{}},{"type":"custom","name":"g"},{"type":"bash_20250124","name":"bash"},{"type":"text_editor_20250728","name":"e"},{"type":"computer_20250124","name":"c"},{"type":"memory_20250818","name":"memory"}]`, "", ""},
		{"web search", messages, `"tools":[{"type":"web_search_20250305","name":"web_search"}]`, hosted,
			"web_search_20250305"},
		{"web fetch", messages, `"tools":[{"type":"web_fetch_20250910","name":"web_fetch"}]`, hosted, "web_fetch_20250910"},
		{"code execution", messages, `"tools":[{"type":"code_execution_20250825","name":"code_execution"}]`, hosted,
			"code_execution_20250825"},
		{"tools of an MCP server", messages, `"tools":[{"type":"mcp_toolset","mcp_server_name":"x"}]`, hosted, "mcp_toolset"},
		{"advisor", messages, `"tools":[{"type":"advisor_20260301","name":"advisor"}]`, hosted, "advisor_20260301"},
		{"tool of tomorrow", messages, `"tools":[{"type":"bash_20990101","name":"bash"}]`, hosted, "bash_20990101"},
		{"MCP servers", messages, `"mcp_servers":[{"type":"url","url":"https://mcp.example.com","name":"x"}]`, hosted,
			"mcp_servers"},
		{"container", messages, `"container":"container_1"`, hosted, "container"},
	} {
		t.Run(string(tt.dialect)+"/"+tt.name, func(t *testing.T) {
			body := smallest[tt.dialect]
			if tt.with != "" {
				body = strings.TrimSuffix(body, "}") + "," + tt.with + "}"
			}
			r, err := inference.Read(inference.Rule{Dialect: tt.dialect}, []byte(body), key)
			if code(err) != tt.code {
				t.Fatalf("code %q, want %q (%v)", code(err), tt.code, err)
			}
			if err == nil && (r.Model != "m" || r.AskedCount != 1 || len(r.Hosted) > 0) {
				t.Errorf("%+v", r)
			}
			if tt.by == "" {
				return
			}
			if !strings.Contains(err.Error(), tt.by) {
				t.Errorf("the refusal %q does not name %s", err, tt.by)
			}
			r, err = inference.Read(inference.Rule{Dialect: tt.dialect, Hosted: []string{tt.by}}, []byte(body), key)
			if err != nil || fmt.Sprint(r.Hosted) != "["+tt.by+"]" {
				t.Errorf("with the rule's leave: %v, %v", r, err)
			}
		})
	}
}

// TestReadContent reads what requests say, by shapes of the SDKs' own tests and of the published documentation.
func TestReadContent(t *testing.T) {
	for _, tt := range []struct {
		name    string
		dialect inference.Dialect
		body    string
		want    string // the blocks, or a code
	}{
		{"chat", inference.OpenAIChat,
			`{"model":"gpt-4o","messages":[{"role":"developer","content":"be brief"},{"role":"user","content":[{"type":"text","text":"what is this?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]},{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"look","arguments":"{\"b\":1,\"a\":2}"}}]},{"role":"tool","tool_call_id":"call_1","content":"a cat"}]}`,
			"developer text 8 hashed\nuser text 13 hashed\nuser other 69 hashed\nassistant call call_1 look 13 hashed\ntool " +
				"result call_1 5 hashed\n"},
		{"chat, spaces and escapes", inference.OpenAIChat,
			`{"model":"m","messages":[ {"role":"user","content" : "  \ttwo\u0020\"\ud83d\ude00\" " } , {"role":"user","content":" x  "}]}`,
			"user text 14 hashed\nuser text 4 hashed\n"},
		{"chat, image by URL", inference.OpenAIChat,
			`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/?q=secret"}}]}]}`, hosted},
		{"chat, video by URL", inference.OpenAIChat,
			`{"model":"m","messages":[{"role":"user","content":[{"type":"video_url","video_url":{"url":"https://example.com/v"}}]}]}`, hosted},
		{"chat, no messages", inference.OpenAIChat, `{"model":"m"}`, malformed},
		{"chat, message that is a text", inference.OpenAIChat, `{"model":"m","messages":["hello"]}`, malformed},
		{"chat, a list", inference.OpenAIChat, `[{"model":"m"}]`, malformed},
		{"chat, not UTF-8", inference.OpenAIChat, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}",
			malformed},
		{"chat, two texts", inference.OpenAIChat, `{"model":"m","messages":[]} {}`, malformed},
		{"responses", inference.OpenAIResponses,
			`{"model":"gpt-5","instructions":"be brief","input":[{"role":"user","content":[{"type":"input_text","text":"hi"},{"type":"input_image","image_url":"data:image/png;base64,AA"}]},{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"x"},{"type":"function_call","call_id":"call_1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"call_1","output":"done"},{"type":"message","role":"assistant","id":"msg_1","status":"completed","content":[{"type":"output_text","text":"ok","annotations":[{"type":"url_citation","url":"https://example.com"}]}]}]}`,
			"system text 8 hashed\nuser text 2 hashed\nuser other 61 hashed\nassistant reasoning 2 hashed\nassistant call " +
				"call_1 f 2 hashed\ntool result call_1 4 hashed\nassistant text 2 hashed\n"},
		{"responses, image by URL", inference.OpenAIResponses,
			`{"model":"m","input":[{"role":"user","content":[{"type":"input_image","image_url":"https://example.com/i"}]}]}`,
			hosted},
		{"responses, file by URL", inference.OpenAIResponses,
			`{"model":"m","input":[{"role":"user","content":[{"type":"input_file","file_url":"http://example.com/f"}]}]}`,
			hosted},
		{"responses, URL in a result", inference.OpenAIResponses,
			`{"model":"m","input":[{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","image_url":"https://example.com/i"}]}]}`, hosted},
		{"responses, screenshot by URL", inference.OpenAIResponses,
			`{"model":"m","input":[{"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot","image_url":"https://example.com/i"}}]}`, hosted},
		{"responses, tools among the input", inference.OpenAIResponses,
			`{"model":"m","input":[{"type":"additional_tools","role":"developer","tools":[{"type":"mcp"}]}]}`, hosted},
		{"responses, found tools", inference.OpenAIResponses,
			`{"model":"m","input":[{"type":"tool_search_output","tools":[{"type":"mcp"}]}]}`, hosted},
		{"responses, leave for a tool of the provider", inference.OpenAIResponses,
			`{"model":"m","input":[{"type":"mcp_approval_response","approval_request_id":"r","approve":true}]}`, hosted},
		{"responses, what the provider keeps", inference.OpenAIResponses,
			`{"model":"m","input":[{"type":"item_reference","id":"msg_1"}]}`, hosted},
		{"responses, item of tomorrow", inference.OpenAIResponses, `{"model":"m","input":[{"type":"teleport"}]}`, hosted},
		{"responses, item without a type", inference.OpenAIResponses, `{"model":"m","input":[{"id":"msg_1"}]}`, hosted},
		{"responses, no input", inference.OpenAIResponses, `{"model":"m"}`, ""},
		{"messages", inference.AnthropicMessages,
			`{"model":"claude-sonnet-4-5","max_tokens":9,"system":[{"type":"text","text":"be brief","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA"}},{"type":"text","text":"hi"}]},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"tool_use","id":"toolu_1","name":"f","input":{"b":1,"a":2}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"done"}]},{"type":"tool_result","tool_use_id":"toolu_2","content":"no","is_error":true}]}]}`,
			"system text 8 hashed\nuser other 80 hashed\nuser text 2 hashed\nassistant reasoning 2 hashed\nassistant call " +
				"toolu_1 f 13 hashed\nuser result toolu_1 4 hashed\nuser result toolu_2 2 hashed\n"},
		{"messages, image by URL", inference.AnthropicMessages,
			`{"model":"m","messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://example.com/i"}}]}]}`, hosted},
		{"messages, image by URL in a result", inference.AnthropicMessages,
			`{"model":"m","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"url","url":"https://example.com/i"}}]}]}]}`, hosted},
		{"messages, image by URL in a document", inference.AnthropicMessages,
			`{"model":"m","messages":[{"role":"user","content":[{"type":"document","source":{"type":"content","content":[{"type":"image","source":{"type":"url","url":"https://example.com/i"}}]}}]}]}`, hosted},
		{"messages, URL among arguments", inference.AnthropicMessages,
			`{"model":"m","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"url":"https://example.com"}}]}]}`, "assistant call t f 29 hashed\n"},
		{"messages, result in a result", inference.AnthropicMessages,
			`{"model":"m","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"tool_result","tool_use_id":"t"}]}]}]}`, malformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := inference.Read(inference.Rule{Dialect: tt.dialect}, []byte(tt.body), key)
			got := code(err)
			if err == nil {
				got = blocks(r.Asked)
			}
			if got != tt.want {
				t.Errorf("got\n%s, want\n%s (%v)", got, tt.want, err)
			}
		})
	}
}

// TestManyBlocks: a long conversation is counted whole, and its last blocks are kept.
func TestManyBlocks(t *testing.T) {
	var body strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&body, `,{"role":"user","content":"%d"}`, i)
	}
	r := mustRead(t, inference.OpenAIChat, `{"model":"m","messages":[`+body.String()[1:]+`]}`)
	last := mustRead(t, inference.OpenAIChat, `{"model":"m","messages":[{"role":"user","content":"4999"}]}`).Asked[0]
	if r.AskedCount != 5000 || len(r.Asked) != 1024 || r.Asked[1023] != last {
		t.Errorf("%d blocks, %d kept, the last is %v", r.AskedCount, len(r.Asked), r.Asked[len(r.Asked)-1])
	}
}

// TestRule refuses rules that name what cannot be.
func TestRule(t *testing.T) {
	for _, tt := range []struct {
		rule inference.Rule
		ok   bool
	}{
		{inference.Rule{Dialect: inference.OpenAIResponses, Hosted: []string{"web_search", inference.RemoteContent}}, true},
		{inference.Rule{}, false},
		{inference.Rule{Dialect: "openai"}, false},
		{inference.Rule{Dialect: inference.OpenAIChat, Hosted: []string{"a text"}}, false},
		{inference.Rule{Dialect: inference.OpenAIChat, Hosted: []string{"*"}}, false},
		{inference.Rule{Dialect: inference.OpenAIChat, Hosted: []string{"x", "x"}}, false},
		{inference.Rule{Dialect: inference.OpenAIChat, Hosted: []string{"function"}}, false},
	} {
		if err := tt.rule.Check(); (err == nil) != tt.ok {
			t.Errorf("%v: %v", tt.rule, err)
		}
	}
}

// TestShortKey: without a key of its own a session's texts could be guessed from their hashes.
func TestShortKey(t *testing.T) {
	if _, err := inference.Read(inference.Rule{Dialect: inference.OpenAIChat}, []byte(smallest[inference.OpenAIChat]),
		key[1:]); err == nil {
		t.Error("a key of 31 bytes is taken")
	}
}
