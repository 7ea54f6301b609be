package traces

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	temporaltraces "go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/interceptor"

	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/version"
)

const (
	// exportWait bounds one request to the collector.
	exportWait = 10 * time.Second
	// mostAttributes and longestAttribute bound what one span says.
	mostAttributes   = 16
	longestAttribute = 200
	// mostWaiting bounds the spans that wait for the collector; further ones are dropped.
	mostWaiting = 4096
)

// scope is the name under which our own spans stand.
const scope = "fairlead.dev/fairlead"

// Traces makes spans and sends them. A nil *Traces makes none.
type Traces struct {
	provider    *sdktrace.TracerProvider
	interceptor interceptor.Interceptor
}

// Open returns the traces of a program, or nil if the config names no collector. It does not wait
// for the collector. log may be nil: then nobody is told that the collector does not answer.
func Open(ctx context.Context, conf config.Traces, program string, log *slog.Logger) (*Traces, error) {
	if conf.Endpoint == "" {
		return nil, nil
	}
	out, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(conf.URL()), otlptracehttp.WithTimeout(exportWait),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: time.Second, MaxInterval: 5 * time.Second, MaxElapsedTime: exportWait}))
	if err != nil {
		return nil, fmt.Errorf("send traces to %s: %w", conf.Endpoint, err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(toldOnce(log)))
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(discreet{out}, sdktrace.WithMaxQueueSize(mostWaiting), sdktrace.WithExportTimeout(exportWait)),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(conf.Share()))),
		// No event is kept: an event of an error has its text.
		sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{AttributeValueLengthLimit: longestAttribute, AttributeCountLimit: mostAttributes, EventCountLimit: 0, LinkCountLimit: 8,
			AttributePerEventCountLimit: 0, AttributePerLinkCountLimit: 4}),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", program), attribute.String("service.version", version.String()), attribute.String("host.name", host))),
	)
	own, err := temporaltraces.NewTracingInterceptor(temporaltraces.TracerOptions{
		Tracer: provider.Tracer(scope), DisableQueryTracing: true, DisableBaggage: true, AllowInvalidParentSpans: true,
	})
	if err != nil {
		return nil, fmt.Errorf("trace what Temporal is asked: %w", err)
	}
	return &Traces{provider, own}, nil
}

// toldOnce logs the first of several failures, and then one in an hour.
func toldOnce(log *slog.Logger) func(error) {
	var mu sync.Mutex
	var told time.Time
	return func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if log == nil || time.Since(told) < time.Hour {
			return
		}
		told = time.Now()
		log.Warn("traces are not sent", "err", err)
	}
}

// Interceptors are for a client of Temporal; its workers use them, too. They stand before all
// others.
func (t *Traces) Interceptors() []interceptor.ClientInterceptor {
	if t == nil {
		return nil
	}
	return []interceptor.ClientInterceptor{t.interceptor}
}

// Begin starts a span. The context has it as the parent of further ones.
func (t *Traces) Begin(ctx context.Context, name string) (context.Context, func(err error)) {
	if t == nil {
		return ctx, func(error) {}
	}
	ctx, span := t.provider.Tracer(scope).Start(ctx, name)
	return ctx, func(err error) { finish(span, err) }
}

// Close sends what has not been sent, if the collector takes it in time.
func (t *Traces) Close(ctx context.Context) {
	if t != nil {
		_ = t.provider.Shutdown(ctx)
	}
}

// Ran begins a span of a script on a host, if ctx is traced. The function that it returns is
// called with the script's error.
func Ran(ctx context.Context, what, host string) (end func(err error)) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return func(error) {}
	}
	_, span := parent.TracerProvider().Tracer(scope).Start(ctx, "SSH:"+what, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attribute.String("fairlead.host", host)))
	return func(err error) { finish(span, err) }
}

func finish(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// discreet sends spans without the texts of errors.
type discreet struct{ sdktrace.SpanExporter }

func (d discreet) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	all := make([]sdktrace.ReadOnlySpan, len(spans))
	for i, s := range spans {
		all[i] = silent{s}
	}
	return d.SpanExporter.ExportSpans(ctx, all)
}

type silent struct{ sdktrace.ReadOnlySpan }

func (s silent) Status() sdktrace.Status {
	return sdktrace.Status{Code: s.ReadOnlySpan.Status().Code}
}

func (s silent) Events() []sdktrace.Event { return nil }
