// Command load puts load on an OpenAI- or Anthropic-style endpoint behind
// which the bench upstream answers, verifies every answer, and reports
// latencies, errors and the gateway's CPU time and memory.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"headgate.example/rig/internal/spec"
	"headgate.example/rig/internal/stats"
)

// options is what the command line asks for.
type options struct {
	name        string
	target      *url.URL
	kind        kind
	model       string
	headers     []string
	stream      bool
	concurrency int
	requests    int
	duration    time.Duration
	rate        float64
	ramp        time.Duration
	warmup      time.Duration
	timeout     time.Duration
	bodySize    int
	answer      spec.Spec
	pids        []int
	known       []int
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("load: ")
	opt := options{answer: spec.Default()}
	target := flag.String("url", "http://127.0.0.1:19100/v1/chat/completions", "endpoint; its path's end tells the API: chat/completions, responses or messages")
	flag.StringVar(&opt.name, "name", "", "label for the report")
	flag.StringVar(&opt.model, "model", "gpt-4o-mini", "model to ask for")
	key := flag.String("key", "sk-bench", "API key, sent as a bearer token ('' for none)")
	flag.Func("header", "'name: value' to send (repeatable)", func(s string) error {
		opt.headers = append(opt.headers, s)
		return nil
	})
	flag.BoolVar(&opt.stream, "stream", false, "ask for streams")
	flag.IntVar(&opt.concurrency, "c", 16, "connections: closed loop keeps each busy; open loop uses up to this many")
	flag.IntVar(&opt.requests, "n", 0, "stop after this many requests")
	flag.DurationVar(&opt.duration, "duration", 0, "stop starting requests after this time")
	flag.Float64Var(&opt.rate, "rate", 0, "open loop: requests per second; latencies count from the intended start")
	flag.DurationVar(&opt.ramp, "ramp", 0, "closed loop: spread the connections' first requests over this time")
	flag.DurationVar(&opt.warmup, "warmup", 0, "before measuring, run quick requests of the same kind for this time")
	flag.DurationVar(&opt.timeout, "timeout", 60*time.Second, "limit for one request")
	flag.IntVar(&opt.bodySize, "body-size", 1024, "request body in bytes, roughly, as a chat history")
	answer := flag.String("answer", "", "what the upstream shall answer: k=v,k=v of latency, chunks, delay, chunk-size, size, stamp=1")
	pids := flag.String("pid", "", "gateway process ids, comma-separated; their trees are measured")
	known := flag.String("known-pid", "", "further process ids of the benchmark (the upstream), not counted as noise")
	asJSON := flag.Bool("json", false, "print the report as JSON")
	flag.Parse()

	var err error
	if opt.target, err = url.Parse(*target); err != nil || opt.target.Scheme != "http" || opt.target.Port() == "" {
		log.Fatalf("--url %q: want http://host:port/path", *target)
	}
	if opt.kind, err = kindOf(opt.target.Path); err != nil {
		log.Fatal(err)
	}
	if err = opt.answer.Apply(*answer); err != nil {
		log.Fatal(err)
	}
	if opt.pids, err = numbers(*pids); err == nil {
		opt.known, err = numbers(*known)
	}
	if err != nil {
		log.Fatal(err)
	}
	if *key != "" {
		opt.headers = append(opt.headers, "authorization: Bearer "+*key)
		if opt.kind == messages {
			opt.headers = append(opt.headers, "x-api-key: "+*key, "anthropic-version: 2023-06-01")
		}
	}
	if opt.requests == 0 && opt.duration == 0 {
		opt.requests = 1000
	}
	stats.RaiseFileLimit()
	runtime.GOMAXPROCS(max(2, runtime.NumCPU())) // one may be in a system call

	report := run(&opt)
	if *asJSON {
		enc := json.NewEncoder(os.Stdout)
		enc.SetEscapeHTML(false)
		enc.Encode(report)
	} else {
		report.print(os.Stdout)
	}
	if report.OK == 0 {
		os.Exit(1)
	}
}

func numbers(list string) ([]int, error) {
	var out []int
	for _, item := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		n, err := strconv.Atoi(item)
		if err != nil {
			return nil, fmt.Errorf("process id %q: %w", item, err)
		}
		out = append(out, n)
	}
	return out, nil
}
