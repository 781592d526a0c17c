// A Collector as it may stand in front of data planes: OTLP in, loadbalancingexporter, OTLP out; configuration from
// files, of which later ones add to earlier ones.
package main

import (
	"fmt"
	"os"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/loadbalancingexporter"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

const version = "0.161.0"

func factories() (otelcol.Factories, error) {
	var all otelcol.Factories
	var err error
	if all.Receivers, err = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory()); err != nil {
		return all, err
	}
	if all.Exporters, err = otelcol.MakeFactoryMap[exporter.Factory](loadbalancingexporter.NewFactory()); err != nil {
		return all, err
	}
	all.Telemetry = otelconftelemetry.NewFactory()
	return all, nil
}

func main() {
	command := otelcol.NewCommand(otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{
			Command:     "collector",
			Description: "OpenTelemetry Collector, reduced to what stands in front of a data plane",
			Version:     version,
		},
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{
			ResolverSettings: confmap.ResolverSettings{
				ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory()},
				DefaultScheme:     "file",
			},
		},
	})
	if err := command.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
