package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"headgate.example/rig/internal/spec"
	"headgate.example/rig/internal/wire"
)

// kind is an API.
type kind int

const (
	chat kind = iota
	responses
	messages
)

func kindOf(path string) (kind, error) {
	for suffix, k := range map[string]kind{"/chat/completions": chat, "/responses": responses, "/messages": messages} {
		if strings.HasSuffix(path, suffix) {
			return k, nil
		}
	}
	return 0, fmt.Errorf("cannot tell the API from the path %q", path)
}

// client is one connection and the buffers it reuses.
type client struct {
	opt      *options
	metrics  *metrics
	id, seq  int
	lastUse  time.Time
	nc       net.Conn
	br       *bufio.Reader // of the connection
	lines    *bufio.Reader // of a stream's body
	res      wire.Response
	body     wire.Body
	request  []byte
	nonceAt  int
	expected []byte // the text of a right answer
	sizes    []int  // of each delta of a right stream
	text     []byte // the text received
	buf      []byte
}

func newClient(opt *options, m *metrics, id int) *client {
	c := &client{opt: opt, metrics: m, id: id}
	c.request, c.nonceAt = renderRequest(opt)
	sp := opt.answer
	if opt.stream {
		for i := range sp.Chunks {
			before := len(c.expected)
			if sp.Stamp {
				c.expected = append(c.expected, make([]byte, spec.StampLen)...)
			}
			c.expected = sp.AppendDelta(c.expected, i)
			c.sizes = append(c.sizes, len(c.expected)-before)
		}
	} else {
		c.expected = sp.AppendText(nil)
	}
	return c
}

// renderRequest renders the whole HTTP request; only its nonce changes.
func renderRequest(opt *options) (request []byte, nonceAt int) {
	sp := opt.answer
	sp.Nonce = spec.NoNonce
	ask := sp.WriteDirective() + " Please answer."
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	const turn = 600 // bytes of a message in the history
	var history []message
	for left := opt.bodySize - 350; left > 0; left -= turn + 40 {
		role := [2]string{"user", "assistant"}[len(history)%2]
		text := spec.Spec{ChunkSize: min(left, turn)}
		history = append(history, message{role, string(text.AppendDelta(nil, 1+len(history)))})
	}
	if len(history)%2 == 1 { // the last turn is the user's
		history[len(history)-1].Content += " " + ask
	} else {
		history = append(history, message{"user", ask})
	}
	system := "You are a helpful assistant."
	var body map[string]any
	switch opt.kind {
	case chat:
		body = map[string]any{"messages": append([]message{{"system", system}}, history...), "temperature": 0.7, "max_tokens": 1024}
	case responses:
		body = map[string]any{"input": history, "instructions": system, "max_output_tokens": 1024}
	case messages:
		body = map[string]any{"messages": history, "system": system, "max_tokens": 1024}
	}
	body["model"] = opt.model
	if opt.stream {
		body["stream"] = true
	}
	text, _ := json.Marshal(body)
	path := opt.target.RequestURI()
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nhost: %s\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\nuser-agent: gwbench\r\n", path, opt.target.Host)
	for _, h := range opt.headers {
		fmt.Fprintf(&b, "%s\r\n", h)
	}
	fmt.Fprintf(&b, "content-length: %d\r\n\r\n%s", len(text), text)
	return b.Bytes(), bytes.LastIndex(b.Bytes(), []byte("nonce="+spec.NoNonce)) + len("nonce=")
}

// failure is an error with the kind it is counted under.
type failure struct{ kind, detail string }

func (f *failure) Error() string { return f.kind + ": " + f.detail }

// do sends one request and judges its answer.
func (c *client) do(intended time.Time) {
	c.seq++
	nonce := fmt.Appendf(c.request[:c.nonceAt], "%06x%010x", c.id&0xffffff, c.seq)
	_ = nonce // written in place
	copy(c.expected[c.nonceInText():], c.request[c.nonceAt:c.nonceAt+spec.StampLen])

	begin := time.Now()
	c.metrics.lag.Add(begin.Sub(intended))
	err := c.exchange(intended)
	if errors.Is(err, errStale) {
		c.metrics.stale.Add(1)
		c.close()
		err = c.exchange(intended)
	}
	end := time.Now()
	c.lastUse = end
	if err != nil {
		c.close()
		f := classify(err)
		c.metrics.fail(f.kind, f.detail)
		return
	}
	c.metrics.latency.Add(end.Sub(intended))
	c.metrics.ok.Add(1)
}

func (c *client) nonceInText() int {
	if c.opt.stream && c.opt.answer.Stamp {
		return spec.StampLen
	}
	return 0
}

// errStale tells that the server closed a connection that was idle: HTTP allows
// that at any time, and clients send the request again on a new one.
var errStale = errors.New("idle connection closed by the server")

const idleLong = time.Second // before which a closed connection is an error

func (c *client) exchange(intended time.Time) error {
	mayBeStale := false
	if c.nc == nil {
		if err := c.dial(); err != nil {
			return err
		}
	} else {
		mayBeStale = time.Since(c.lastUse) > idleLong
	}
	c.nc.SetDeadline(time.Now().Add(c.opt.timeout))
	if _, err := c.nc.Write(c.request); err != nil {
		if mayBeStale {
			return errStale
		}
		return err
	}
	if err := c.res.Read(c.br); err != nil {
		if mayBeStale && (err == io.EOF || errors.Is(err, syscall.ECONNRESET)) {
			return errStale
		}
		if err == io.EOF {
			return &failure{"closed", "connection closed before an answer"}
		}
		return err
	}
	c.metrics.bytesOut.Add(int64(len(c.request)))
	c.body.Reset(c.br, &c.res.Head)
	if c.res.Status != 200 {
		c.buf, _ = c.body.ReadAll(c.buf[:0])
		return &failure{fmt.Sprintf("status %d", c.res.Status), string(c.buf[:min(len(c.buf), 300)])}
	}
	var err error
	if c.opt.stream {
		err = c.readStream(intended)
	} else {
		err = c.readWhole()
	}
	if err == nil && (c.res.Close || !c.body.Reusable()) {
		c.close()
	}
	return err
}

func (c *client) dial() error {
	nc, err := net.DialTimeout("tcp", c.opt.target.Host, 10*time.Second)
	if err != nil {
		return &failure{"connect", err.Error()}
	}
	c.nc = counted{nc, c.metrics}
	if c.br == nil {
		c.br = bufio.NewReaderSize(c.nc, 4096)
		c.lines = bufio.NewReaderSize(nil, 4096)
	} else {
		c.br.Reset(c.nc)
	}
	return nil
}

func (c *client) close() {
	if c.nc != nil {
		c.nc.Close()
		c.nc = nil
	}
}

// counted counts the bytes read.
type counted struct {
	net.Conn
	metrics *metrics
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.metrics.bytesIn.Add(int64(n))
	return n, err
}

func (c *client) readWhole() error {
	var err error
	if c.buf, err = c.body.ReadAll(c.buf[:0]); err != nil {
		return err
	}
	key := [...]string{chat: `"content"`, responses: `"text"`, messages: `"text"`}[c.opt.kind]
	foreign := ""
	for from := 0; ; { // other members may have that name: try each
		at := bytes.Index(c.buf[from:], []byte(key))
		if at < 0 {
			break
		}
		var ok bool
		if c.text, ok = wire.StringAfter(c.text[:0], c.buf, from+at, key); ok && bytes.Equal(c.text, c.expected) {
			return nil
		}
		if ok && c.isForeign() {
			foreign = string(c.text[:spec.StampLen])
		}
		from += at + len(key)
	}
	if foreign != "" {
		return c.foreignAnswer(foreign)
	}
	return &failure{"content", "wrong or no text in " + string(c.buf[:min(len(c.buf), 300)])}
}

// isForeign tells whether the text received is right but for the nonce: an
// answer to another request.
func (c *client) isForeign() bool {
	at := c.nonceInText()
	if len(c.text) != len(c.expected) || len(c.text) < at+spec.StampLen {
		return false
	}
	own := c.expected[at : at+spec.StampLen]
	got := bytes.Clone(c.text[at : at+spec.StampLen])
	copy(c.text[at:], own)
	right := c.rightText()
	copy(c.text[at:], got)
	return right && !bytes.Equal(own, got)
}

func (c *client) foreignAnswer(nonce string) *failure {
	return &failure{"foreign answer", fmt.Sprintf("got the answer to request %s, sent %s", nonce, c.request[c.nonceAt:c.nonceAt+spec.StampLen])}
}

// readStream reads events up to the API's last one and the body's end.
func (c *client) readStream(intended time.Time) error {
	c.lines.Reset(&c.body)
	c.text = c.text[:0]
	deltas, ended, rechunked := 0, false, false
	var previous time.Time
	for {
		line, err := c.readLine()
		if err == io.EOF {
			break
		}
		if err != nil {
			return &failure{"mid-stream " + classify(err).kind, fmt.Sprintf("after %d deltas: %v", deltas, err)}
		}
		data, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue
		}
		data = bytes.TrimSpace(data)
		before := len(c.text)
		isDelta, last, err := c.event(data)
		if err != nil {
			return err
		}
		ended = ended || last
		if !isDelta || len(c.text) == before {
			continue
		}
		now := time.Now()
		if deltas == 0 {
			c.metrics.ttft.Add(now.Sub(intended))
		} else {
			c.metrics.gap.Add(now.Sub(previous))
		}
		previous = now
		got := c.text[before:]
		rechunked = rechunked || deltas >= len(c.sizes) || len(got) != c.sizes[deltas]
		if c.opt.answer.Stamp && !rechunked {
			if sent, ok := spec.ReadStamp(got); ok {
				c.metrics.transit.Add(now.Sub(sent))
			}
		}
		deltas++
	}
	c.metrics.chunks.Add(int64(deltas))
	at := c.nonceInText()
	switch {
	case !c.rightText() && c.isForeign():
		return c.foreignAnswer(string(c.text[at : at+spec.StampLen]))
	case !c.rightText():
		return &failure{"content", fmt.Sprintf("%d of %d deltas, %d of %d bytes, ended: %v", deltas, len(c.sizes), len(c.text), len(c.expected), ended)}
	case !ended:
		return &failure{"no final event", fmt.Sprintf("%d deltas", deltas)}
	case rechunked || deltas != len(c.sizes):
		return &failure{"rechunked", fmt.Sprintf("right text, but %d deltas for %d", deltas, len(c.sizes))}
	}
	return nil
}

// readLine reads one line of the stream, however long.
func (c *client) readLine() ([]byte, error) {
	line, err := c.lines.ReadSlice('\n')
	if err == nil {
		return line, nil
	}
	c.buf = append(c.buf[:0], line...)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = c.lines.ReadSlice('\n')
		c.buf = append(c.buf, line...)
	}
	return c.buf, err
}

// event takes one event's data and appends the text it brings.
func (c *client) event(data []byte) (isDelta, last bool, err error) {
	switch c.opt.kind {
	case chat:
		if string(data) == "[DONE]" {
			return false, true, nil
		}
		if bytes.HasPrefix(data, []byte(`{"error"`)) {
			break
		}
		c.text, isDelta = wire.StringAfter(c.text, data, 0, `"content"`)
		return isDelta, false, nil
	case responses:
		switch {
		case bytes.Contains(data, []byte(`"response.output_text.delta"`)):
			c.text, isDelta = wire.StringAfter(c.text, data, 0, `"delta"`)
			return isDelta, false, nil
		case bytes.Contains(data, []byte(`"response.completed"`)):
			return false, true, nil
		case !bytes.Contains(data, []byte(`"error","`)) && !bytes.Contains(data, []byte(`"response.failed"`)):
			return false, false, nil
		}
	case messages:
		switch {
		case bytes.Contains(data, []byte(`"text_delta"`)):
			c.text, isDelta = wire.StringAfter(c.text, data, 0, `"text"`)
			return isDelta, false, nil
		case bytes.Contains(data, []byte(`"message_stop"`)):
			return false, true, nil
		case !bytes.Contains(data, []byte(`"type":"error"`)):
			return false, false, nil
		}
	}
	return false, false, &failure{"error event", string(data[:min(len(data), 300)])}
}

// rightText compares what came with what should have, but for time stamps.
func (c *client) rightText() bool {
	if len(c.text) != len(c.expected) {
		return false
	}
	if !c.opt.stream || !c.opt.answer.Stamp {
		return bytes.Equal(c.text, c.expected)
	}
	at := 0
	for _, size := range c.sizes {
		if !bytes.Equal(c.text[at+spec.StampLen:at+size], c.expected[at+spec.StampLen:at+size]) {
			return false
		}
		at += size
	}
	return true
}

func classify(err error) *failure {
	var f *failure
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &failure{"timeout", err.Error()}
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return &failure{"reset", err.Error()}
	case errors.Is(err, io.ErrUnexpectedEOF), err == io.EOF:
		return &failure{"truncated", err.Error()}
	}
	return &failure{"protocol", err.Error()}
}
