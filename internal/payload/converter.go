package payload

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"
)

// Use makes a client and its workers encrypt payloads. Call it also without keys: then
// others' encrypted payloads are refused with a clear error. Set the options of the
// connection before, not after.
func (c *Codec) Use(opts *client.Options) {
	opts.DataConverter, opts.FailureConverter = c.DataConverter(), c.FailureConverter()
	if in := c.Interceptor(); in != nil {
		opts.Interceptors = append(opts.Interceptors, in)
	}
	if c.workers != nil && c.workers.Required {
		opts.ConnectionOptions.DialOptions = append(opts.ConnectionOptions.DialOptions, grpc.WithChainUnaryInterceptor(c.readsProofs))
	}
}

// DataConverter returns Temporal's default converter with the codec around it. Clients and
// workers tell it the place of each payload. Without that, it reads as Codec.Decode does.
func (c *Codec) DataConverter() converter.DataConverter { return dataConverter{codec: c} }

// Of returns the converter for the input, the result and the memo of a workflow that began
// at that time; zero if unknown.
func (c *Codec) Of(workflowID string, began time.Time) converter.DataConverter {
	return dataConverter{codec: c, at: place{kind: ofWorkflow, workflow: workflowID}, placed: true, began: began}
}

// A dataConverter panics in a workflow if a key is missing: the workflow task fails and is
// retried until a worker has the key. After an error, the SDK would drop a signal, and fail
// a workflow whose input it cannot decode. For the same reason it panics if the input has
// an older form: the user may yet say that it is accepted.
type dataConverter struct {
	codec  *Codec
	at     place
	placed bool // at is known
	began  time.Time
	runID  string
	typ    string // of the workflow, where run is set
	run    *run   // of the converters that the SDK derives for one run of a workflow
	own    bool   // bound to the context of that run
}

// A run is what the SDK tells only a converter that is bound to the workflow's context.
type run struct {
	began atomic.Int64 // in Unix nanoseconds; 0 if not known yet
	begun atomic.Bool  // its input was read
}

var (
	_ converter.ContextAware                          = dataConverter{}
	_ converter.DataConverterWithSerializationContext = dataConverter{}
)

// WithSerializationContext implements converter.DataConverterWithSerializationContext.
func (d dataConverter) WithSerializationContext(ctx converter.SerializationContext) converter.DataConverter {
	return dataConverter{codec: d.codec, at: placeOf(ctx), placed: true, run: &run{}}
}

// WithWorkflowContext implements converter.ContextAware.
func (d dataConverter) WithWorkflowContext(ctx converter.WorkflowContext) converter.DataConverter {
	info := workflow.GetInfo(ctx)
	d.own, d.began, d.runID, d.typ = true, info.WorkflowStartTime, info.WorkflowExecution.RunID, info.WorkflowType.Name
	if d.run != nil && d.at.kind == ofWorkflow && d.at.workflow == info.WorkflowExecution.ID {
		d.run.began.Store(d.began.UnixNano())
	} else {
		d.run = nil
	}
	return d
}

// WithContext implements converter.ContextAware.
func (d dataConverter) WithContext(ctx context.Context) converter.DataConverter {
	if d.at.kind == ofActivity && activity.IsActivity(ctx) {
		d.began = activity.GetInfo(ctx).ScheduledTime
	}
	return d
}

func (d dataConverter) beganAt() time.Time {
	if d.began.IsZero() && d.run != nil {
		if ns := d.run.began.Load(); ns != 0 {
			return time.Unix(0, ns)
		}
	}
	return d.began
}

// A message is the argument of a signal or an update, with its kind and name.
type message struct {
	kind  placeKind
	name  string
	value any
}

// A sealed is the argument of an update, before its handler says which update it is.
type sealed struct {
	payload *commonpb.Payload
	by      dataConverter
}

// ToPayload implements converter.DataConverter.
func (d dataConverter) ToPayload(value any) (*commonpb.Payload, error) {
	at, purpose, note := d.at, "", ""
	switch v := value.(type) {
	case message:
		at, value = at.message(v.kind, v.name), v.value
	case purposed:
		purpose, value, note = v.purpose, v.value, v.note
	}
	p, err := converter.GetDefaultDataConverter().ToPayload(value)
	if p == nil || err != nil {
		return p, err
	}
	out, err := d.codec.encodeFor(at, purpose, []*commonpb.Payload{p})
	if err != nil {
		return nil, err
	}
	d.codec.note(at.String(), purpose, note, out[0])
	return out[0], nil
}

// ToPayloads implements converter.DataConverter.
func (d dataConverter) ToPayloads(values ...any) (*commonpb.Payloads, error) {
	if len(values) == 0 {
		return nil, nil
	}
	out := &commonpb.Payloads{}
	for i, value := range values {
		p, err := d.ToPayload(value)
		if err != nil {
			return nil, fmt.Errorf("values[%d]: %w", i, err)
		}
		out.Payloads = append(out.Payloads, p)
	}
	return out, nil
}

// FromPayload implements converter.DataConverter.
func (d dataConverter) FromPayload(p *commonpb.Payload, to any) error {
	if p == nil {
		return nil
	}
	return d.insist(d.read(p, to))
}

// FromPayloads implements converter.DataConverter.
func (d dataConverter) FromPayloads(p *commonpb.Payloads, to ...any) error {
	all := p.GetPayloads()
	if len(all) < len(to) && d.placed {
		if err := d.codec.absent(d.at, d.beganAt()); err != nil {
			return d.insist(err)
		}
	}
	if len(to) > 0 && (len(all) > len(to) || len(all) < len(to) && d.codec.requires(d.beganAt())) {
		if _, update := to[0].(*sealed); update { // its proof covers what its handler reads, and nothing else
			return fmt.Errorf("the update has %d arguments, and its handler takes %d", len(all), len(to))
		}
	}
	for i := range min(len(all), len(to)) {
		if err := d.insist(d.read(all[i], to[i])); err != nil {
			return fmt.Errorf("payload item %d: %w", i, err)
		}
	}
	if d.own && d.run != nil && d.run.begun.CompareAndSwap(false, true) {
		o, err := d.codec.origin(d.beganAt(), forInput(d.typ), all)
		if err != nil {
			d.run.begun.Store(false)
			return d.insist(err)
		}
		d.codec.starts.Store(d.runID, o)
	}
	return nil
}

func (d dataConverter) read(p *commonpb.Payload, to any) error {
	if to, ok := to.(*sealed); ok {
		*to = sealed{p, d}
		return nil
	}
	plain, err := d.decode(p)
	if err != nil {
		return err
	}
	return converter.GetDefaultDataConverter().FromPayload(plain, to)
}

func (d dataConverter) decode(p *commonpb.Payload) (*commonpb.Payload, error) {
	if d.placed {
		return d.codec.decodeAt(d.at, d.beganAt(), p)
	}
	out, err := d.codec.Decode([]*commonpb.Payload{p})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

func (d dataConverter) insist(err error) error {
	if d.own && errors.Is(err, ErrNoKey) || d.own && d.run != nil && !d.run.begun.Load() && errors.Is(err, ErrOlder) {
		panic(err)
	}
	return err
}

// ToString implements converter.DataConverter.
func (d dataConverter) ToString(p *commonpb.Payload) string {
	plain, err := d.decode(p)
	if err != nil {
		return err.Error()
	}
	return converter.GetDefaultDataConverter().ToString(plain)
}

// ToStrings implements converter.DataConverter.
func (d dataConverter) ToStrings(p *commonpb.Payloads) []string {
	if p == nil {
		return nil
	}
	out := make([]string, len(p.GetPayloads()))
	for i, p := range p.GetPayloads() {
		out[i] = d.ToString(p)
	}
	return out
}

// open reads the argument of an update into a new value of type t, and says who wrote it.
// plain is the argument as the default converter writes it.
func (s sealed) open(ctx workflow.Context, name string, t reflect.Type) (arg reflect.Value, plain []byte, from Origin, err error) {
	v := reflect.New(t)
	d := s.by
	if s.payload == nil || d.codec == nil {
		return v.Elem(), nil, Unknown, nil // FromPayloads has accepted that it is missing
	}
	d.began = workflow.GetInfo(ctx).WorkflowStartTime
	d.at = d.at.message(toUpdate, name)
	p, err := d.decode(s.payload)
	if err == nil {
		err = converter.GetDefaultDataConverter().FromPayload(p, v.Interface())
	}
	if err != nil {
		return v.Elem(), nil, FromOthers, err
	}
	from, err = d.codec.origin(d.began, "", []*commonpb.Payload{s.payload})
	if err == nil {
		err = d.codec.takesFrom(from, d.at, d.began, Message{Update: true, Name: name})
	}
	return v.Elem(), p.GetData(), from, err
}

// fromWorker reads a value that only a worker may have written, and for this purpose.
func (s sealed) fromWorker(to any, purpose string) error {
	d := s.by
	if s.payload == nil || d.codec == nil {
		return nil
	}
	if err := d.codec.internal(d.at, purpose, d.beganAt(), s.payload); err != nil {
		return d.insist(err)
	}
	return d.insist(d.read(s.payload, to))
}
