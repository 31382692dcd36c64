package inference_test

import (
	"strings"
	"testing"

	"github.com/actionproof/mediator/proxy/inference"
)

const (
	eventStream = "text/event-stream; charset=utf-8"
	jsonType    = "application/json"
)

// stream makes a stream of events of their data.
func stream(events ...string) string {
	return "data: " + strings.Join(events, "\n\ndata: ") + "\n\n"
}

// The answers have the shapes of the official SDKs' own tests: chat as in streamaccumulator_test.go and
// chatcompletion_test.go, responses as in internal/websockettest/response_accumulator_test.go of openai-go v3.96.0,
// messages as in betamessage_test.go and betatoolrunner_test.go of anthropic-sdk-go v1.84.0.
var answers = []struct {
	name    string
	dialect inference.Dialect
	kind    string
	body    string
	want    string
}{
	{
		"stream with a call and usage", inference.OpenAIChat, eventStream, stream(
			`{"id":"chatcmpl-A3T","object":"chat.completion.chunk","created":1725392480,"model":"gpt-4o-2024-05-13","system_fingerprint":"fp_157","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null}`,
			`{"id":"chatcmpl-A3T","model":"gpt-4o-2024-05-13","choices":[{"index":0,"delta":{"content":"Let's"},"logprobs":{"content":[{"token":"Let's","logprob":-2.3,"bytes":[76],"top_logprobs":[]}],"refusal":null},"finish_reason":null}],"usage":null}`,
			`{"id":"chatcmpl-A3T","model":"gpt-4o-2024-05-13","choices":[{"index":0,"delta":{"content":" look"},"finish_reason":null}],"usage":null}`,
			`{"id":"chatcmpl-A3T","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_FXo","type":"function","function":{"name":"get_weather","arguments":""}}]},"finish_reason":null}],"usage":null}`,
			`{"id":"chatcmpl-A3T","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"location\":"}}]},"finish_reason":null}],"usage":null}`,
			`{"id":"chatcmpl-A3T","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"Santorini\"}"}}]},"finish_reason":null}],"usage":null}`,
			`{"id":"chatcmpl-A3T","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}],"usage":null}`,
			`{"id":"chatcmpl-A3T","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":100,"total_tokens":110,"completion_tokens_details":{"reasoning_tokens":5},"prompt_tokens_details":{"cached_tokens":4}}}`,
			`[DONE]`),
		"complete |chatcmpl-A3T gpt-4o-2024-05-13|\nin 10 declared, out 100 declared, cached 4 declared, reasoning 5 " +
			"declared, hosted 0 declared\nstops [{0 tool_calls}]\n" +
			"text 10 hashed\ncall call_FXo get_weather 24 hashed\n",
	},
	{
		"two choices, two calls each", inference.OpenAIChat, eventStream, stream(
			`{"id":"c","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}},{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}]}},{"index":1,"delta":{"content":"no"}}]}`,
			`{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]},"finish_reason":"tool_calls"},{"index":1,"delta":{"refusal":"never"},"finish_reason":"content_filter"}]}`, `[DONE]`),
		"complete |c m|\nin 2 estimated, out 3 estimated, cached 0 not_measured, reasoning 0 not_measured, hosted 0 " +
			"declared\nstops [{0 tool_calls} {1 content_filter}]\ncall a f 2 hashed\ncall b g 2 hashed\ntext 2 " +
			"hashed\nrefusal 5 hashed\n",
	},
	{
		"deviations: CRLF, comments, no space, no usage, no indexes, reasoning", inference.OpenAIChat, eventStream,
		": keep-alive\r\n\r\nevent: message\r\nid: 1\r\nretry: " +
			"3000\r\ndata:{\"choices\":[]}\r\n\r\ndata:{\"model\":\"llama\",\"choices\":[{\"delta\":{\"reasoning_content\":" +
			"\"hm\"}}]}\r\n\r\n: ping\r\n" +
			"data:{\"choices\":[{\"delta\":{\"content\":\"hel\",\"tool_calls\":null}}]}\r\n\r\ndata:{\"choices\":[{\"delta\":" +
			"{\"content\":\"lo\",\"tool_calls\":[{\"id\":\"x\",\"function\":{\"name\":\"f\",\"arguments\":{\"a\": " +
			"1}}}]},\"finish_reason\":\"stop\"}]}\r\n\r\ndata:[DONE]\r\n\r\n",
		"complete | llama|\nin 2 estimated, out 4 estimated, cached 0 not_measured, reasoning 0 not_measured, hosted 0 " +
			"declared\nstops [{0 stop}]\nreasoning 2 hashed\ntext 5 hashed\ncall x f 8 hashed\n",
	},
	{
		"error in mid-stream", inference.OpenAIChat, eventStream,
		stream(`{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"hel"}}]}`,
			`{"error":{"message":"the text of it","type":"server_error","code":null}}`),
		"failed |c m|server_error\nin 0 not_measured, out 0 not_measured, cached 0 not_measured, reasoning 0 " +
			"not_measured, hosted 0 declared\nstops []\ntext 3 hashed\n",
	},
	{
		"cut", inference.OpenAIChat, eventStream,
		stream(`{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"hel"}}]}`),
		"cut |c m|\nin 0 not_measured, out 0 not_measured, cached 0 not_measured, reasoning 0 not_measured, hosted 0 " +
			"declared\nstops []\ntext 3 hashed\n",
	},
	{
		"JSON", inference.OpenAIChat, jsonType,
		`{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-4o","choices":[{"index":0,"message":{"role":"assistant","content":"hi","refusal":null,"annotations":[],"tool_calls":[{"id":"call_1","type":"custom","custom":{"name":"sql","input":"select 1"}}]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`,
		"complete |chatcmpl-1 gpt-4o|\nin 3 declared, out 1 declared, cached 0 not_measured, reasoning 0 not_measured, " +
			"hosted 0 declared\nstops [{0 stop}]\ntext 2 hashed\ncall call_1 sql 8 hashed\n",
	},
	{
		"an event with a member twice", inference.OpenAIChat, eventStream, stream(`{"choices":[],"choices":[]}`),
		"not_measured malformed| |\nin 0 not_measured, out 0 not_measured, cached 0 not_measured, reasoning 0 " +
			"not_measured, hosted 0 not_measured\nstops []\n",
	},
	{
		"names that are texts", inference.OpenAIChat, jsonType,
		`{"id":"a text of a secret","model":"another text","choices":[{"message":{"content":"x","tool_calls":[{"id":"a text","function":{"name":"a text","arguments":"{}"}}]},"finish_reason":"a text"}]}`,
		"complete | |\nin 2 estimated, out 1 estimated, cached 0 not_measured, reasoning 0 not_measured, hosted 0 " +
			"declared\nstops []\ntext 1 hashed\ncall 3cdf0ba5e8a550aba8d596cf88306fdf53ff0fe2a59947dbf6d09f7040ddfd14 2 " +
			"hashed\n",
	},
	{
		"stream", inference.OpenAIResponses, eventStream, stream(
			`{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","model":"gpt-5","output":[],"usage":null,"error":null,"incomplete_details":null}}`,
			`{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]}}`,
			`{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"hm"}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]}}`,
			`{"type":"response.output_item.added","output_index":1,"item":{"id":"msg_1","type":"message","status":"in_progress","content":[],"role":"assistant"}}`,
			`{"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"hello "}`,
			`{"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"world"}`,
			`{"type":"response.output_text.done","item_id":"msg_1","output_index":1,"content_index":0,"text":"hello world"}`,
			`{"type":"response.output_item.done","output_index":1,"item":{"id":"msg_1","type":"message","status":"completed","content":[{"type":"output_text","text":"hello world","annotations":[]}],"role":"assistant"}}`,
			`{"type":"response.output_item.added","output_index":2,"item":{"id":"fc_1","type":"function_call","call_id":"call_1","name":"get_weather","arguments":""}}`,
			`{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":2,"delta":"{\"city\":\"SF\"}"}`,
			`{"type":"response.output_item.done","output_index":2,"item":{"id":"fc_1","type":"function_call","call_id":"call_1","name":"get_weather","arguments":"{\"city\":\"SF\"}"}}`,
			`{"type":"response.output_item.added","output_index":3,"item":{"id":"ws_1","type":"web_search_call","status":"in_progress"}}`,
			`{"type":"response.completed","response":{"id":"resp_1","status":"completed","model":"gpt-5","output":[{"type":"message","content":[{"type":"output_text","text":"hello world"}]}],"usage":{"input_tokens":36,"input_tokens_details":{"cached_tokens":6},"output_tokens":87,"output_tokens_details":{"reasoning_tokens":64},"total_tokens":123},"error":null,"incomplete_details":null}}`),
		"complete |resp_1 gpt-5|\nin 36 declared, out 87 declared, cached 6 declared, reasoning 64 declared, hosted 1 " +
			"declared\nstops [{0 completed}]\nreasoning 2 hashed\ntext 11 hashed\ncall call_1 get_weather 13 hashed\n",
	},
	{
		"items without deltas, incomplete", inference.OpenAIResponses, eventStream, stream(
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"refusal","refusal":"no"}]}}`,
			`{"type":"response.output_item.done","output_index":1,"item":{"type":"custom_tool_call","call_id":"c","name":"f","input":"go"}}`,
			`{"type":"response.incomplete","response":{"id":"r","model":"m","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`),
		"complete |r m|\nin 2 estimated, out 1 estimated, cached 0 not_measured, reasoning 0 not_measured, hosted 0 " +
			"declared\nstops [{0 max_output_tokens}]\nrefusal 2 hashed\ncall c f 2 hashed\n",
	},
	{
		"failed", inference.OpenAIResponses, eventStream,
		stream(
			`{"type":"response.failed","response":{"id":"r","model":"m","status":"failed","error":{"code":"rate_limit_exceeded","message":"the text of it"}}}`),
		"failed |r m|rate_limit_exceeded\nin 0 not_measured, out 0 not_measured, cached 0 not_measured, reasoning 0 " +
			"not_measured, hosted 0 declared\nstops []\n",
	},
	{
		"error event", inference.OpenAIResponses, eventStream,
		stream(`{"type":"error","code":"ERR_SOMETHING","message":"the text of it","param":null,"sequence_number":1}`),
		"failed | |ERR_SOMETHING\nin 0 not_measured, out 0 not_measured, cached 0 not_measured, reasoning 0 not_measured, " +
			"hosted 0 declared\nstops []\n",
	},
	{
		"error in an event", inference.OpenAIResponses, eventStream,
		stream(`{"type":"error","error":{"type":"invalid_request_error","code":null,"message":"the text of it"}}`),
		"failed | |invalid_request_error\nin 0 not_measured, out 0 not_measured, cached 0 not_measured, reasoning 0 " +
			"not_measured, hosted 0 declared\nstops []\n",
	},
	{
		"JSON", inference.OpenAIResponses, jsonType,
		`{"id":"resp_1","object":"response","status":"completed","model":"gpt-5","error":null,"incomplete_details":null,"output":[{"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"hi","annotations":[]}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}],"usage":{"input_tokens":1,"output_tokens":2}}`,
		"complete |resp_1 gpt-5|\nin 1 declared, out 2 declared, cached 0 not_measured, reasoning 0 not_measured, hosted " +
			"0 declared\nstops [{0 completed}]\ntext 2 hashed\ncall c f 2 hashed\n",
	},
	{
		"in the background", inference.OpenAIResponses, jsonType,
		`{"id":"resp_1","status":"queued","model":"gpt-5","output":[],"usage":null}`,
		"unfinished |resp_1 gpt-5|\nin 0 not_measured, out 0 not_measured, cached 0 not_measured, reasoning 0 " +
			"not_measured, hosted 0 declared\nstops []\n",
	},
	{
		"stream", inference.AnthropicMessages, eventStream,
		"event: message_start\n" +
			stream(
				`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":5,"cache_read_input_tokens":70,"output_tokens":1}}}`) +
			"event: content_block_start\n" +
			stream(`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`) +
			"event: ping\n" + stream(`{"type": "ping"}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQB"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Hello"}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"!"}}`,
			`{"type":"content_block_stop","index":1}`,
			`{"type":"content_block_start","index":2,"content_block":{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}}`, `{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"query\":\"x\"}"}}`, `{"type":"content_block_stop","index":2}`,
			`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_1","name":"get_weather","input":{}}}`, `{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}`, `{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"city\": "}}`, `{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"\"SF\"}"}}`, `{"type":"content_block_stop","index":3}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":89,"output_tokens_details":{"thinking_tokens":12}}}`, `{"type":"message_stop"}`),
		"complete |msg_1 claude-sonnet-4-5|\nin 100 declared, out 89 declared, cached 70 declared, reasoning 12 declared, " +
			"hosted 1 declared\nstops [{0 tool_use}]\nreasoning 2 hashed\ntext 6 hashed\ncall toolu_1 get_weather 14 hashed\n",
	},
	{
		"error in mid-stream", inference.AnthropicMessages, eventStream,
		stream(`{"type":"message_start","message":{"id":"msg_1","model":"m","usage":{"input_tokens":2,"output_tokens":1}}}`,
			`{"type":"error","error":{"type":"overloaded_error","message":"the text of it"}}`),
		"failed |msg_1 m|overloaded_error\nin 2 declared, out 1 declared, cached 0 not_measured, reasoning 0 " +
			"not_measured, hosted 0 declared\nstops []\n",
	},
	{
		"JSON", inference.AnthropicMessages, jsonType,
		`{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"hi"},{"type":"tool_use","id":"toolu_1","name":"f","input":{}}],"stop_reason":"refusal","stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":4}}`,
		"complete |msg_1 claude-sonnet-4-5|\nin 3 declared, out 4 declared, cached 0 not_measured, reasoning 0 " +
			"not_measured, hosted 0 declared\nstops [{0 refusal}]\ntext 2 hashed\ncall toolu_1 f 2 hashed\n",
	},
	{
		"JSON of an error", inference.AnthropicMessages, jsonType,
		`{"type":"error","error":{"type":"overloaded_error","message":"the text of it"}}`,
		"failed | |overloaded_error\nin 0 not_measured, out 0 not_measured, cached 0 not_measured, reasoning 0 " +
			"not_measured, hosted 0 declared\nstops []\n",
	},
	{
		"no message_stop", inference.AnthropicMessages, eventStream, stream(
			`{"type":"message_start","message":{"id":"msg_1","model":"m","usage":{"input_tokens":2,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hello"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}`),
		"cut |msg_1 m|\nin 2 declared, out 0 not_measured, cached 0 not_measured, reasoning 0 not_measured, hosted 0 " +
			"declared\nstops [{0 end_turn}]\ntext 5 hashed\n",
	},
	{
		"no response.completed", inference.OpenAIResponses, eventStream, stream(
			`{"type":"response.created","response":{"id":"r","model":"m"}}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","status":"completed","content":[{"type":"output_text","text":"Hello"}]}}`),
		"cut |r m|\nin 0 not_measured, out 0 not_measured, cached 0 not_measured, reasoning 0 not_measured, hosted 0 " +
			"declared\nstops []\ntext 5 hashed\n",
	},
	{
		"half a JSON", inference.AnthropicMessages, jsonType, `{"id":"msg_1","type":"mess`,
		"not_measured malformed| |\nin 0 not_measured, out 0 not_measured, cached 0 not_measured, reasoning 0 " +
			"not_measured, hosted 0 not_measured\nstops []\n",
	},
}

// TestAnswers reads answers whole, and in pieces of several sizes.
func TestAnswers(t *testing.T) {
	for _, tt := range answers {
		t.Run(string(tt.dialect)+"/"+tt.name, func(t *testing.T) {
			if len(tt.body) > 4096 {
				t.Fatal("in pieces of one byte it would be more than a reader may be behind")
			}
			whole := observe(t, tt.dialect, tt.kind, tt.body, 0, options())
			if got := figures(whole); got != tt.want {
				t.Errorf("got\n%s, want\n%s", got, tt.want)
			}
			for _, size := range []int{1, 7, 100} {
				pieces := observe(t, tt.dialect, tt.kind, tt.body, size, options())
				if got := figures(pieces); got != tt.want || hashes(pieces) != hashes(whole) {
					t.Errorf("in pieces of %d bytes: got\n%s, want\n%s", size, got, tt.want)
				}
			}
		})
	}
}

// TestSaidIsAsked: what a model has said has the same hash when the agent sends it again, in a stream or not.
func TestSaidIsAsked(t *testing.T) {
	said := make(map[inference.Dialect][]inference.Block)
	for _, tt := range answers {
		said[tt.dialect] = append(said[tt.dialect], observe(t, tt.dialect, tt.kind, tt.body, 0, options()).Said...)
	}
	for d, body := range map[inference.Dialect]string{
		inference.OpenAIChat:        `{"messages":[{"role":"assistant","content":"Let's look","tool_calls":[{"id":"call_FXo","type":"function","function":{"name":"get_weather","arguments":"{\"location\":\"Santorini\"}"}}]}]}`,
		inference.OpenAIResponses:   `{"input":[{"role":"assistant","content":[{"type":"output_text","text":"hello world"}]},{"type":"function_call","call_id":"call_1","name":"get_weather","arguments":"{\"city\":\"SF\"}"}]}`,
		inference.AnthropicMessages: `{"messages":[{"role":"assistant","content":[{"type":"text","text":"Hello!"},{"type":"tool_use","id":"toolu_1","name":"get_weather","input":{"city":"SF"}},{"type":"tool_use","id":"toolu_1","name":"f","input":{}}]}]}`,
	} {
		for _, asked := range mustRead(t, d, body).Asked {
			found := false
			for _, b := range said[d] {
				found = found || b.Hash == asked.Hash && b.Kind == asked.Kind
			}
			if !found {
				t.Errorf("%s: the %s is not found again", d, asked.Kind)
			}
		}
	}
}
