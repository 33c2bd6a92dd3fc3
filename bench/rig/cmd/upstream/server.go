package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"headgate.example/rig/internal/spec"
	"headgate.example/rig/internal/wire"
)

type server struct {
	base       spec.Spec
	keys       map[string]spec.Spec
	models     []byte
	requireKey bool
	counters   counterSet
	templates  templateCache
}

func (s *server) serve(ln net.Listener) {
	for {
		nc, err := ln.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			log.Print(err)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		s.counters.connsOpened.Add(1)
		s.counters.connsOpen.Add(1)
		go func() {
			defer s.counters.connsOpen.Add(-1)
			defer nc.Close()
			c := &conn{server: s, Conn: nc, br: bufio.NewReaderSize(nc, 4096)}
			for c.next() {
			}
		}()
	}
}

// conn is one client connection with the buffers it reuses.
type conn struct {
	*server
	net.Conn
	br      *bufio.Reader
	req     wire.Request
	out     []byte
	counted []*counters // where the current call is counted
	keyName string
	keyPtr  *counters
	pathStr string
	pathPtr *counters
}

var errAborted = errors.New("client went away")

// next serves one call and tells whether the connection can take another.
func (c *conn) next() bool {
	if err := c.req.Read(c.br); err != nil {
		return false
	}
	if c.req.Continue {
		if _, err := c.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n")); err != nil {
			return false
		}
	}
	if err := c.req.ReadBody(c.br); err != nil {
		return false
	}
	err := c.route()
	return err == nil && !c.req.Close && !c.req.HTTP10
}

// api is the kind of a call.
type api int

const (
	apiChat api = iota
	apiResponses
	apiMessages
)

func (c *conn) route() error {
	path, _, _ := bytes.Cut(c.req.Path, []byte{'?'})
	get := string(c.req.Method) == "GET" || string(c.req.Method) == "HEAD"
	switch {
	case string(path) == "/__stats":
		return c.reply(200, "", c.counters.json())
	case string(path) == "/__reset":
		c.counters.reset()
		return c.reply(200, "", []byte("{}"))
	case get && bytes.HasSuffix(path, []byte("/models")):
		return c.reply(200, "", c.models)
	case get:
		return c.reply(200, "", []byte(`{"status":"ok"}`))
	case bytes.HasSuffix(path, []byte("/chat/completions")):
		return c.call(apiChat, path)
	case bytes.HasSuffix(path, []byte("/responses")):
		return c.call(apiResponses, path)
	case bytes.HasSuffix(path, []byte("/messages")):
		return c.call(apiMessages, path)
	}
	return c.fail(404, "", "no such endpoint: "+string(path))
}

// call serves one model call, as the specs that apply to it say.
func (c *conn) call(kind api, path []byte) error {
	c.countCall(path)
	if c.requireKey && len(c.req.Key) == 0 {
		return c.fail(401, "", "no API key")
	}
	sp := c.base
	if len(c.keys) > 0 {
		if rule, ok := c.keys[string(c.req.Key)]; ok {
			sp = rule
		}
	}
	if rest, ok := bytes.CutPrefix(path, []byte("/fault/")); ok {
		text, _, _ := bytes.Cut(rest, []byte{'/'})
		if err := sp.Apply(strings.ReplaceAll(string(text), "%2C", ",")); err != nil {
			return c.fail(400, "", err.Error())
		}
	}
	if err := sp.Apply(spec.Directive(c.req.Body)); err != nil {
		return c.fail(400, "", err.Error())
	}
	if sp.Rate < 1 && rand.Float64() >= sp.Rate {
		sp.Status, sp.Fault = 0, spec.FaultNone
	}
	stream := wire.True(c.req.Body, `"stream"`)
	for _, n := range c.counted {
		n.requests.Add(1)
		n.bytesIn.Add(int64(len(c.req.Body)))
		n.open.Add(1)
		if stream {
			n.streams.Add(1)
		}
		if sp.Status != 0 || sp.Fault != spec.FaultNone {
			n.faults.Add(1)
		}
	}
	err := c.answer(kind, &sp, stream)
	for _, n := range c.counted {
		n.open.Add(-1)
		switch {
		case errors.Is(err, errAborted):
			n.aborted.Add(1)
		case err == nil && sp.Status == 0 && sp.Fault == spec.FaultNone:
			n.completed.Add(1)
		}
	}
	return err
}

// errClose ends the connection after a fault that needs it.
var errClose = errors.New("closed as the fault demands")

func (c *conn) answer(kind api, sp *spec.Spec, stream bool) error {
	if err := c.wait(sp.Latency); err != nil {
		return err
	}
	switch sp.Fault {
	case spec.FaultReset:
		return c.reset()
	case spec.FaultHang:
		c.wait(sp.Hold)
		return errClose
	}
	if sp.Status != 0 {
		return c.fail(sp.Status, sp.RetryAfter, "fault injected by the benchmark")
	}
	t := c.templates.get(kind, sp, stream, c.req.Body)
	if sp.Fault == spec.FaultSlowHeaders {
		if err := c.trickle(t.head, sp.Hold); err != nil {
			return err
		}
		t = t.withoutHead()
	}
	if stream {
		return c.stream(t, sp)
	}
	if sp.Fault == spec.FaultBadJSON {
		return c.reply(200, "", t.body[:len(t.body)/2])
	}
	c.out = append(c.out[:0], t.head...)
	c.out = append(c.out, t.body...)
	copy(c.out[len(t.head)+t.nonceAt:], sp.Nonce)
	return c.send(c.out)
}

// stream sends the events of a template, one write each, at the spec's pace.
func (c *conn) stream(t *template, sp *spec.Spec) error {
	c.out = append(c.out[:0], t.head...)
	c.out = append(c.out, t.first...)
	for i := range t.deltas {
		if i > 0 && sp.Delay > 0 {
			if err := c.wait(sp.Delay); err != nil {
				return err
			}
		}
		if sp.Fault != spec.FaultNone && i == sp.After {
			if done, err := c.midFault(sp); done {
				return err
			}
		}
		d := &t.deltas[i]
		at := len(c.out)
		c.out = append(c.out, d.bytes...)
		if i == 0 {
			copy(c.out[at+d.nonceAt:], sp.Nonce)
		}
		if sp.Stamp {
			spec.AppendStamp(c.out[:at+d.stampAt], time.Now())
		}
		if err := c.send(c.out); err != nil {
			return err
		}
		c.out = c.out[:0]
	}
	if sp.Fault == spec.FaultNoDone {
		return c.send([]byte(lastChunk))
	}
	return c.send(t.last)
}

// midFault plays a fault in the middle of a stream; done ends the stream.
func (c *conn) midFault(sp *spec.Spec) (done bool, err error) {
	if len(c.out) > 0 { // the head, when no chunk was to be sent before
		if err := c.send(c.out); err != nil {
			return true, err
		}
		c.out = c.out[:0]
	}
	switch sp.Fault {
	case spec.FaultResetMid:
		time.Sleep(time.Millisecond) // let what was sent before reach the peer
		return true, c.reset()
	case spec.FaultEOF:
		return true, errClose
	case spec.FaultStall:
		if err := c.wait(sp.Hold); err != nil {
			return true, err
		}
	case spec.FaultBadSSE:
		c.out = appendChunk(c.out, "data: {\"id\":\"chatcmpl-bench\",\"choices\":[{\"delta\":{\"content\":\"bro\n\n")
	case spec.FaultErrorEvent:
		event := "data: {\"error\":{\"message\":\"fault injected by the benchmark\",\"type\":\"server_error\",\"code\":\"bench\"}}\n\n"
		return true, c.send(append(appendChunk(nil, event), lastChunk...))
	}
	return false, nil
}

// reply sends a whole JSON answer.
func (c *conn) reply(status int, retryAfter string, body []byte) error {
	c.out = append(c.out[:0], "HTTP/1.1 "...)
	c.out = strconv.AppendInt(c.out, int64(status), 10)
	c.out = append(c.out, " Bench\r\ncontent-type: application/json\r\ncontent-length: "...)
	c.out = strconv.AppendInt(c.out, int64(len(body)), 10)
	if retryAfter != "" {
		c.out = append(append(c.out, "\r\nretry-after: "...), retryAfter...)
	}
	c.out = append(append(c.out, "\r\n\r\n"...), body...)
	return c.send(c.out)
}

func (c *conn) fail(status int, retryAfter, message string) error {
	kind := "invalid_request_error"
	if status == 429 {
		kind = "rate_limit_error"
	} else if status >= 500 {
		kind = "server_error"
	}
	return c.reply(status, retryAfter, []byte(`{"error":{"message":`+strconv.Quote(message)+`,"type":"`+kind+`","param":null,"code":"bench_`+strconv.Itoa(status)+`"}}`))
}

func (c *conn) send(b []byte) error {
	if _, err := c.Write(b); err != nil {
		return errAborted
	}
	return nil
}

// reset closes the connection with a TCP RST.
func (c *conn) reset() error {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.Close()
	return errClose
}

// trickle sends a response head in ten pieces over the given time.
func (c *conn) trickle(head []byte, over time.Duration) error {
	const pieces = 10
	for i := range pieces {
		if err := c.send(head[len(head)*i/pieces : len(head)*(i+1)/pieces]); err != nil {
			return err
		}
		if err := c.wait(over / pieces); err != nil {
			return err
		}
	}
	return nil
}

// wait sleeps. From 20 ms on it also notices that the client went away; a
// shorter wait leaves that to the next write.
func (c *conn) wait(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	if d < 20*time.Millisecond || c.br.Buffered() > 0 {
		time.Sleep(d)
		return nil
	}
	deadline := time.Now().Add(d)
	c.SetReadDeadline(deadline)
	_, err := c.br.Peek(1)
	c.SetReadDeadline(time.Time{})
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil
	case err == nil: // a pipelined request
		time.Sleep(time.Until(deadline))
		return nil
	case err == io.EOF:
		return errAborted
	default:
		return errAborted
	}
}
