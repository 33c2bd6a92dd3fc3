package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"headgate.example/rig/internal/spec"
	"headgate.example/rig/internal/wire"
)

// template is an answer rendered once for all calls of a kind; a call patches
// its nonce and its time stamps into a copy.
type template struct {
	head    []byte
	body    []byte // non-stream
	nonceAt int    // in body
	first   []byte // events before the first delta
	deltas  []delta
	last    []byte // events after the last delta, with the end of the body
}

type delta struct {
	bytes            []byte
	stampAt, nonceAt int
}

func (t *template) withoutHead() *template {
	bare := *t
	bare.head = nil
	return &bare
}

type templateKey struct {
	kind             api
	stream, usage    bool
	stamp            bool
	chunks, chunk, n int
	model            string
}

type templateCache struct {
	mu sync.RWMutex
	m  map[templateKey]*template
}

const maxTemplates = 1000

func (c *templateCache) get(kind api, sp *spec.Spec, stream bool, body []byte) *template {
	key := templateKey{kind: kind, stream: stream}
	if stream {
		key.usage = wire.True(body, `"include_usage"`)
		key.stamp, key.chunks, key.chunk = sp.Stamp, sp.Chunks, sp.ChunkSize
	} else {
		key.n = sp.Size
	}
	model, _ := wire.StringAfter(nil, body, 0, `"model"`)
	key.model = string(model)
	c.mu.RLock()
	t := c.m[key]
	c.mu.RUnlock()
	if t != nil {
		return t
	}
	t = render(key, *sp)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || len(c.m) >= maxTemplates {
		c.m = map[templateKey]*template{}
	}
	c.m[key] = t
	return t
}

const (
	lastChunk = "0\r\n\r\n"
	// A marker that cannot occur in the texts and needs no JSON escaping.
	stampMark  = "<stamp--------->"
	created    = 1_760_000_000
	commonHead = "date: Thu, 09 Oct 2025 08:53:20 GMT\r\n" +
		"x-request-id: req_bench0123456789abcdef0123456789\r\n" +
		"openai-processing-ms: 12\r\nopenai-version: 2020-10-01\r\n" +
		"x-ratelimit-limit-requests: 10000\r\nx-ratelimit-remaining-requests: 9999\r\n" +
		"x-ratelimit-limit-tokens: 2000000\r\nx-ratelimit-remaining-tokens: 1999000\r\n" +
		"x-ratelimit-reset-requests: 6ms\r\nx-ratelimit-reset-tokens: 1ms\r\n"
)

func render(key templateKey, sp spec.Spec) *template {
	sp.Nonce = spec.NoNonce
	if key.stream {
		return renderStream(key, sp)
	}
	text := quote(string(sp.AppendText(nil)))
	var body string
	switch key.kind {
	case apiChat:
		body = fmt.Sprintf(`{"id":"chatcmpl-bench","object":"chat.completion","created":%d,"model":%s,"choices":[{"index":0,"message":{"role":"assistant","content":%s,"refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":19,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}},"service_tier":"default","system_fingerprint":"fp_bench"}`,
			created, quote(key.model), text, sp.Size/4, sp.Size/4+19)
	case apiResponses:
		body = responseObject(key.model, "completed", "["+messageItem("completed", text)+"]", usage(sp.Size/4))
	case apiMessages:
		body = fmt.Sprintf(`{"id":"msg_bench","type":"message","role":"assistant","model":%s,"content":[{"type":"text","text":%s}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":19,"output_tokens":%d}}`,
			quote(key.model), text, sp.Size/4)
	}
	return &template{
		head:    []byte("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n" + commonHead + "content-length: " + strconv.Itoa(len(body)) + "\r\n\r\n"),
		body:    []byte(body),
		nonceAt: strings.Index(body, spec.NoNonce),
	}
}

// events writes a stream's events; delta says how one piece of text is put.
type events struct {
	named bool // with an event: line
	seq   int
}

func (e *events) write(kind, data string) string {
	e.seq++
	if e.named {
		return "event: " + kind + "\ndata: " + data + "\n\n"
	}
	return "data: " + data + "\n\n"
}

func renderStream(key templateKey, sp spec.Spec) *template {
	t := &template{head: []byte("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n" + commonHead + "\r\n")}
	ev := &events{named: key.kind != apiChat}
	var first, last string
	var deltaEvent func(text string) string
	var whole []byte
	for i := range sp.Chunks {
		if sp.Stamp {
			whole = append(whole, "0000000000000000"...)
		}
		whole = sp.AppendDelta(whole, i)
	}
	model := quote(key.model)
	switch key.kind {
	case apiChat:
		chunk := func(choices, usage string) string {
			return ev.write("", fmt.Sprintf(`{"id":"chatcmpl-bench","object":"chat.completion.chunk","created":%d,"model":%s,"service_tier":"default","system_fingerprint":"fp_bench","choices":%s%s}`, created, model, choices, usage))
		}
		none, counts := "", ""
		if key.usage {
			none = `,"usage":null`
			counts = fmt.Sprintf(`,"usage":{"prompt_tokens":19,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":0}}`, sp.Chunks, sp.Chunks+19)
		}
		first = chunk(`[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}]`, none)
		deltaEvent = func(text string) string {
			return chunk(`[{"index":0,"delta":{"content":`+text+`},"logprobs":null,"finish_reason":null}]`, none)
		}
		last = chunk(`[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]`, none)
		if key.usage {
			last += chunk(`[]`, counts)
		}
		last += "data: [DONE]\n\n"
	case apiResponses:
		put := func(kind, rest string) string {
			return ev.write(kind, fmt.Sprintf(`{"type":"%s","sequence_number":%d,%s}`, kind, ev.seq, rest))
		}
		const where = `"item_id":"msg_bench","output_index":0,"content_index":0`
		first = put("response.created", `"response":`+responseObject(key.model, "in_progress", "[]", "null")) +
			put("response.in_progress", `"response":`+responseObject(key.model, "in_progress", "[]", "null")) +
			put("response.output_item.added", `"output_index":0,"item":{"id":"msg_bench","type":"message","status":"in_progress","role":"assistant","content":[]}`) +
			put("response.content_part.added", where+`,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}`)
		deltaEvent = func(text string) string {
			return put("response.output_text.delta", where+`,"delta":`+text+`,"logprobs":[]`)
		}
		ev.seq += sp.Chunks
		text := quote(string(whole))
		last = put("response.output_text.done", where+`,"text":`+text+`,"logprobs":[]`) +
			put("response.content_part.done", where+`,"part":{"type":"output_text","text":`+text+`,"annotations":[],"logprobs":[]}`) +
			put("response.output_item.done", `"output_index":0,"item":`+messageItem("completed", text)) +
			put("response.completed", `"response":`+responseObject(key.model, "completed", "["+messageItem("completed", text)+"]", usage(sp.Chunks)))
		ev.seq = 4
	case apiMessages:
		put := func(kind, rest string) string { return ev.write(kind, `{"type":"`+kind+`"`+rest+`}`) }
		first = put("message_start", fmt.Sprintf(`,"message":{"id":"msg_bench","type":"message","role":"assistant","model":%s,"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":19,"output_tokens":1}}`, model)) +
			put("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`) +
			put("ping", "")
		deltaEvent = func(text string) string {
			return put("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":`+text+`}`)
		}
		last = put("content_block_stop", `,"index":0`) +
			put("message_delta", fmt.Sprintf(`,"delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":%d}`, sp.Chunks)) +
			put("message_stop", "")
	}
	t.first = appendChunk(nil, first)
	t.last = append(appendChunk(nil, last), lastChunk...)
	t.deltas = make([]delta, sp.Chunks)
	for i := range t.deltas {
		var text []byte
		if sp.Stamp {
			text = append(text, stampMark...)
		}
		text = sp.AppendDelta(text, i)
		b := appendChunk(nil, deltaEvent(quote(string(text))))
		t.deltas[i] = delta{bytes: b, stampAt: bytes.Index(b, []byte(stampMark)), nonceAt: bytes.Index(b, []byte(spec.NoNonce))}
	}
	return t
}

func responseObject(model, status, output, usage string) string {
	return fmt.Sprintf(`{"id":"resp_bench","object":"response","created_at":%d,"status":"%s","background":false,"error":null,"incomplete_details":null,"instructions":null,"max_output_tokens":null,"model":%s,"output":%s,"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"service_tier":"default","store":false,"temperature":1.0,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_p":1.0,"truncation":"disabled","usage":%s,"user":null,"metadata":{}}`,
		created, status, quote(model), output, usage)
}

func messageItem(status, quotedText string) string {
	return `{"id":"msg_bench","type":"message","status":"` + status + `","role":"assistant","content":[{"type":"output_text","text":` + quotedText + `,"annotations":[],"logprobs":[]}]}`
}

func usage(tokens int) string {
	return fmt.Sprintf(`{"input_tokens":19,"input_tokens_details":{"cached_tokens":0},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":%d}`, tokens, tokens+19)
}

func renderModels(names []string) []byte {
	type model struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int    `json:"created"`
		OwnedBy string `json:"owned_by"`
	}
	list := []model{}
	for _, name := range names {
		list = append(list, model{name, "model", created, "bench"})
	}
	text, _ := json.Marshal(map[string]any{"object": "list", "data": list})
	return text
}

// quote writes a JSON string, with non-ASCII text and <, >, & as they are.
func quote(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.Encode(s)
	return strings.TrimSuffix(b.String(), "\n")
}

// appendChunk appends one HTTP chunk.
func appendChunk(dst []byte, data string) []byte {
	dst = strconv.AppendInt(dst, int64(len(data)), 16)
	dst = append(append(dst, "\r\n"...), data...)
	return append(dst, "\r\n"...)
}
