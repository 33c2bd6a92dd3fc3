// A collector of OpenTelemetry: its OTLP receiver, and an exporter that writes what it accepted to stdout, one line of
// OTLP/JSON a batch. Usage: collector PORT
package main

import (
	"context"
	"fmt"
	"os"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

const config = `yaml:
receivers: { otlp: { protocols: { http: { endpoint: "127.0.0.1:%s" } } } }
exporters: { lines: }
service:
  telemetry: { metrics: { level: none }, logs: { level: error } }
  pipelines:
    traces: { receivers: [otlp], exporters: [lines] }
    metrics: { receivers: [otlp], exporters: [lines] }
    logs: { receivers: [otlp], exporters: [lines] }
`

var lines = component.MustNewType("lines")

type settings struct{}

// printer writes one line at a time: several pipelines write at once.
type printer struct {
	component.StartFunc
	component.ShutdownFunc
}

var writing sync.Mutex

func printLine(text []byte, err error) error {
	if err != nil {
		return err
	}
	writing.Lock()
	defer writing.Unlock()
	_, err = os.Stdout.Write(append(text, '\n'))
	return err
}

func (printer) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (printer) ConsumeTraces(_ context.Context, batch ptrace.Traces) error {
	return printLine((&ptrace.JSONMarshaler{}).MarshalTraces(batch))
}

func (printer) ConsumeMetrics(_ context.Context, batch pmetric.Metrics) error {
	return printLine((&pmetric.JSONMarshaler{}).MarshalMetrics(batch))
}

func (printer) ConsumeLogs(_ context.Context, batch plog.Logs) error {
	return printLine((&plog.JSONMarshaler{}).MarshalLogs(batch))
}

func factories() (otelcol.Factories, error) {
	stability := component.StabilityLevelDevelopment
	made := exporter.NewFactory(lines, func() component.Config { return &settings{} },
		exporter.WithTraces(func(context.Context, exporter.Settings, component.Config) (exporter.Traces, error) {
			return printer{}, nil
		}, stability),
		exporter.WithMetrics(func(context.Context, exporter.Settings, component.Config) (exporter.Metrics, error) {
			return printer{}, nil
		}, stability),
		exporter.WithLogs(func(context.Context, exporter.Settings, component.Config) (exporter.Logs, error) {
			return printer{}, nil
		}, stability))
	otlp := otlpreceiver.NewFactory()
	return otelcol.Factories{
		Receivers: map[component.Type]receiver.Factory{otlp.Type(): otlp},
		Exporters: map[component.Type]exporter.Factory{lines: made},
		Telemetry: otelconftelemetry.NewFactory(),
	}, nil
}

func main() {
	collector, err := otelcol.NewCollector(otelcol.CollectorSettings{
		BuildInfo: component.NewDefaultBuildInfo(),
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs:              []string{fmt.Sprintf(config, os.Args[1])},
			ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()},
		}},
	})
	if err == nil {
		err = collector.Run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
