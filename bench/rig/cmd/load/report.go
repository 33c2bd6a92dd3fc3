package main

import (
	"fmt"
	"io"
	"sort"
	"time"

	"headgate.example/rig/internal/stats"
)

// report is the result of a run. Durations are in microseconds.
type report struct {
	Name        string            `json:"name,omitempty"`
	URL         string            `json:"url"`
	Stream      bool              `json:"stream"`
	Concurrency int               `json:"concurrency"`
	Rate        float64           `json:"rate,omitempty"`
	Seconds     float64           `json:"seconds"`
	OK          int64             `json:"ok"`
	Errors      map[string]int    `json:"errors"`
	Examples    map[string]string `json:"error_examples,omitempty"`
	Stale       int64             `json:"stale,omitempty"` // idle connections found closed; sent again on a new one
	RPS         float64           `json:"rps"`
	Chunks      int64             `json:"chunks,omitempty"`
	ChunksPerS  float64           `json:"chunks_per_s,omitempty"`
	BytesIn     int64             `json:"bytes_in"`
	BytesOut    int64             `json:"bytes_out"`
	Latency     *stats.Summary    `json:"latency_us,omitempty"`
	Lag         *stats.Summary    `json:"lag_us,omitempty"`     // how late the generator itself was
	TTFT        *stats.Summary    `json:"ttft_us,omitempty"`    // intended start to first text
	Gap         *stats.Summary    `json:"gap_us,omitempty"`     // between deltas
	Transit     *stats.Summary    `json:"transit_us,omitempty"` // upstream's write to our read, per delta
	Gateway     *gatewayUse       `json:"gateway,omitempty"`
	SelfCores   float64           `json:"load_cores"`
	KnownCores  float64           `json:"known_cores"`
	NoiseCores  float64           `json:"noise_cores"` // CPU that other processes took
	IRQCores    float64           `json:"irq_cores"`   // soft and hard interrupts: the kernel's network work, of all processes
	StealCores  float64           `json:"steal_cores"`
}

type gatewayUse struct {
	CPUSeconds   float64 `json:"cpu_s"`
	Cores        float64 `json:"cores"`
	CPUPerCall   float64 `json:"cpu_us_per_request,omitempty"`
	CPUPerChunk  float64 `json:"cpu_us_per_chunk,omitempty"`
	RSSBeginMB   float64 `json:"rss_begin_mb"`
	RSSPeakMB    float64 `json:"rss_peak_mb"`
	RSSEndMB     float64 `json:"rss_end_mb"`
	RSSPerConnKB float64 `json:"rss_kb_per_connection"`
	Procs        int     `json:"procs"`
	Threads      int     `json:"threads"`
}

func newReport(opt *options, m *metrics, u usage, elapsed time.Duration) *report {
	s := elapsed.Seconds()
	r := &report{
		Name: opt.name, URL: opt.target.String(), Stream: opt.stream, Concurrency: opt.concurrency, Rate: opt.rate,
		Seconds: s, OK: m.ok.Load(), Stale: m.stale.Load(), Errors: m.errors, Examples: m.examples, RPS: float64(m.ok.Load()) / s,
		Chunks: m.chunks.Load(), ChunksPerS: float64(m.chunks.Load()) / s,
		BytesIn: m.bytesIn.Load(), BytesOut: m.bytesOut.Load(),
		Latency: m.latency.Summary(), TTFT: m.ttft.Summary(), Gap: m.gap.Summary(), Transit: m.transit.Summary(),
		SelfCores: u.self.Seconds() / s, KnownCores: u.known.Seconds() / s, NoiseCores: u.other.Seconds() / s, IRQCores: u.softirq.Seconds() / s, StealCores: u.steal.Seconds() / s,
	}
	if opt.rate > 0 {
		r.Lag = m.lag.Summary()
	}
	if len(opt.pids) == 0 {
		return r
	}
	const mb = 1 << 20
	cpu := (u.end.CPU - u.begin.CPU).Seconds()
	g := &gatewayUse{
		CPUSeconds: cpu, Cores: cpu / s,
		RSSBeginMB: float64(u.begin.RSS) / mb, RSSPeakMB: float64(u.peak) / mb, RSSEndMB: float64(u.end.RSS) / mb,
		RSSPerConnKB: float64(u.peak-u.begin.RSS) / 1024 / float64(opt.concurrency),
		Procs:        u.end.Procs, Threads: u.end.Threads,
	}
	if r.OK > 0 {
		g.CPUPerCall = cpu * 1e6 / float64(r.OK)
	}
	if r.Chunks > 0 {
		g.CPUPerChunk = cpu * 1e6 / float64(r.Chunks)
	}
	r.Gateway = g
	return r
}

func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "%s %s\n", r.Name, r.URL)
	fmt.Fprintf(w, "  %d ok in %.2f s, %.1f req/s, %.2f MB in, %.2f MB out\n", r.OK, r.Seconds, r.RPS, float64(r.BytesIn)/1e6, float64(r.BytesOut)/1e6)
	if r.Stale > 0 {
		fmt.Fprintf(w, "  %d idle connections were found closed\n", r.Stale)
	}
	if r.Chunks > 0 {
		fmt.Fprintf(w, "  %d chunks, %.1f chunks/s\n", r.Chunks, r.ChunksPerS)
	}
	for _, row := range []struct {
		name string
		s    *stats.Summary
	}{{"latency", r.Latency}, {"lag", r.Lag}, {"ttft", r.TTFT}, {"gap", r.Gap}, {"transit", r.Transit}} {
		if row.s != nil {
			fmt.Fprintf(w, "  %-8s us: mean %.0f  p50 %.0f  p90 %.0f  p99 %.0f  p99.9 %.0f  max %.0f\n", row.name, row.s.Mean, row.s.P50, row.s.P90, row.s.P99, row.s.P999, row.s.Max)
		}
	}
	kinds := make([]string, 0, len(r.Errors))
	for kind := range r.Errors {
		kinds = append(kinds, kind)
	}
	sort.Strings(kinds)
	for _, kind := range kinds {
		fmt.Fprintf(w, "  ERROR %s ×%d, such as: %s\n", kind, r.Errors[kind], r.Examples[kind])
	}
	if g := r.Gateway; g != nil {
		fmt.Fprintf(w, "  gateway: %.2f cores, %.1f us CPU per request", g.Cores, g.CPUPerCall)
		if r.Chunks > 0 {
			fmt.Fprintf(w, ", %.2f us per chunk", g.CPUPerChunk)
		}
		fmt.Fprintf(w, "; RSS %.1f -> peak %.1f MB (%.1f KB per connection); %d processes, %d threads\n", g.RSSBeginMB, g.RSSPeakMB, g.RSSPerConnKB, g.Procs, g.Threads)
	}
	fmt.Fprintf(w, "  CPU of others, in cores: load %.2f, known %.2f, noise %.2f, interrupts %.2f, steal %.2f\n", r.SelfCores, r.KnownCores, r.NoiseCores, r.IRQCores, r.StealCores)
}
