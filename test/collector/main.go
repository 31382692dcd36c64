// Command collector is the OTLP receiver of the OpenTelemetry collector. It prints each request as a
// line of JSON.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configgrpc"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(address string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig().(*otlpreceiver.Config)
	config.Protocols.GRPC = configoptional.None[configgrpc.ServerConfig]()
	config.Protocols.HTTP.GetOrInsertDefault().ServerConfig.NetAddr.Endpoint = address
	settings := receivertest.NewNopSettings(factory.Type())

	var mu sync.Mutex
	show := func(line []byte, err error) error {
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			_, err = fmt.Printf("%s\n", line)
		}
		return err
	}
	traces, err := consumer.NewTraces(func(_ context.Context, t ptrace.Traces) error {
		return show(new(ptrace.JSONMarshaler).MarshalTraces(t))
	})
	if err != nil {
		return err
	}
	logs, err := consumer.NewLogs(func(_ context.Context, l plog.Logs) error {
		return show(new(plog.JSONMarshaler).MarshalLogs(l))
	})
	if err != nil {
		return err
	}
	t, err := factory.CreateTraces(ctx, settings, config, traces)
	if err != nil {
		return err
	}
	l, err := factory.CreateLogs(ctx, settings, config, logs)
	if err != nil {
		return err
	}
	for _, r := range []receiver.Traces{t, l} { // they share one server
		if err := r.Start(ctx, componenttest.NewNopHost()); err != nil {
			return err
		}
		defer r.Shutdown(context.Background()) //nolint:errcheck // the process ends
	}
	<-ctx.Done()
	return nil
}
