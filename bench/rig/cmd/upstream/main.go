// Command upstream is a fake AI provider for load tests and fault tests. It
// speaks OpenAI chat completions and responses, and Anthropic messages.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"headgate.example/rig/internal/spec"
	"headgate.example/rig/internal/stats"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("upstream: ")
	srv := &server{base: spec.Default(), keys: map[string]spec.Spec{}}
	listen := flag.String("listen", "127.0.0.1:19100", "address to listen on")
	models := flag.String("models", "gpt-4o-mini,gpt-4o,claude-sonnet-4-5", "model names for GET /v1/models")
	defaults := flag.String("spec", "", "behaviour when a call asks for nothing else, k=v,k=v (see README)")
	requireKey := flag.Bool("require-key", false, "answer 401 to calls without an API key")
	var rules []string
	flag.Func("key", "KEY:k=v,k=v behaviour for calls with this API key (repeatable)", func(s string) error {
		rules = append(rules, s)
		return nil
	})
	flag.Parse()

	if err := srv.base.Apply(*defaults); err != nil {
		log.Fatal(err)
	}
	for _, rule := range rules {
		key, text, ok := strings.Cut(rule, ":")
		s := srv.base
		if err := s.Apply(text); err != nil || !ok {
			log.Fatalf("--key %q: want KEY:k=v,k=v (%v)", rule, err)
		}
		srv.keys[key] = s
	}
	srv.models = renderModels(strings.Split(*models, ","))
	srv.requireKey = *requireKey

	stats.RaiseFileLimit()
	ln, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on", ln.Addr())
	go srv.serve(ln)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	<-stop
}
