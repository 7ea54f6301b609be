package payload

import (
	"context"
	"errors"
	"reflect"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"
)

// Interceptor binds the arguments of signals and updates to their kind and name, and
// refuses others. It returns nil without keys. Use adds it to a client and its workers; a
// replayer needs it too.
func (c *Codec) Interceptor() interceptor.Interceptor {
	if len(c.sealers()) == 0 {
		return nil
	}
	return &binder{codec: c}
}

type binder struct {
	interceptor.InterceptorBase
	codec *Codec
}

// InterceptClient implements interceptor.ClientInterceptor.
func (b *binder) InterceptClient(next interceptor.ClientOutboundInterceptor) interceptor.ClientOutboundInterceptor {
	s := &sender{marks: b.codec.workers != nil, requires: b.codec.workers != nil && b.codec.workers.Required}
	s.Next = next
	return s
}

// A sender names the messages of a client.
type sender struct {
	interceptor.ClientOutboundInterceptorBase
	marks    bool
	requires bool // answers must come from workers
}

// A fromWorkers is an answer that only a worker may have written.
type fromWorkers struct {
	converter.EncodedValue
	purpose string
}

func (v fromWorkers) Get(to any) error {
	var s sealed
	if err := v.EncodedValue.Get(&s); err != nil {
		return err
	}
	return s.fromWorker(to, v.purpose)
}

// An answered is an update whose answer only a worker may have written.
type answered struct {
	client.WorkflowUpdateHandle
	purpose string
}

func (h answered) Get(ctx context.Context, to any) error {
	if to == nil {
		return h.WorkflowUpdateHandle.Get(ctx, nil)
	}
	var s sealed
	if err := h.WorkflowUpdateHandle.Get(ctx, &s); err != nil {
		return err
	}
	return s.fromWorker(to, h.purpose)
}

func (s *sender) ExecuteWorkflow(ctx context.Context, in *interceptor.ClientExecuteWorkflowInput) (client.WorkflowRun, error) {
	if s.marks {
		meant := *in
		meant.Args = purposedAll(forInput(in.WorkflowType), in.Args)
		in = &meant
	}
	return s.Next.ExecuteWorkflow(ctx, in)
}

func (s *sender) QueryWorkflow(ctx context.Context, in *interceptor.ClientQueryWorkflowInput) (converter.EncodedValue, error) {
	v, err := s.Next.QueryWorkflow(ctx, in)
	if err != nil || !s.requires || v == nil {
		return v, err
	}
	return fromWorkers{v, forQuery(in.QueryType)}, nil
}

// handle returns a handle that takes only the answer of a worker to this update.
func (s *sender) handle(name string, args []any, h client.WorkflowUpdateHandle, err error) (client.WorkflowUpdateHandle, error) {
	if err != nil || !s.requires {
		return h, err
	}
	digest, err := digestOfValues(args)
	return answered{h, forUpdate(name, digest)}, err
}

func (s *sender) SignalWorkflow(ctx context.Context, in *interceptor.ClientSignalWorkflowInput) error {
	named := *in
	named.Arg = message{toSignal, in.SignalName, in.Arg}
	return s.Next.SignalWorkflow(ctx, &named)
}

func (s *sender) SignalWithStartWorkflow(ctx context.Context, in *interceptor.ClientSignalWithStartWorkflowInput) (client.WorkflowRun, error) {
	named := *in
	named.SignalArg = message{toSignal, in.SignalName, in.SignalArg}
	return s.Next.SignalWithStartWorkflow(ctx, &named)
}

func (s *sender) UpdateWorkflow(ctx context.Context, in *interceptor.ClientUpdateWorkflowInput) (client.WorkflowUpdateHandle, error) {
	named := *in
	named.Args = updateArgs(in.UpdateName, in.Args)
	h, err := s.Next.UpdateWorkflow(ctx, &named)
	return s.handle(in.UpdateName, in.Args, h, err)
}

func (s *sender) UpdateWithStartWorkflow(ctx context.Context, in *interceptor.ClientUpdateWithStartWorkflowInput) (client.WorkflowUpdateHandle, error) {
	if in.UpdateOptions == nil || in.UpdateOptions.WorkflowID == "" {
		// The SDK would encrypt for a workflow without an id.
		return nil, errors.New("update a workflow and start it if needed: UpdateOptions do not name the workflow")
	}
	named, opts := *in, *in.UpdateOptions
	opts.Args = updateArgs(opts.UpdateName, opts.Args)
	named.UpdateOptions = &opts
	h, err := s.Next.UpdateWithStartWorkflow(ctx, &named)
	return s.handle(opts.UpdateName, in.UpdateOptions.Args, h, err)
}

func updateArgs(name string, args []any) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		out[i] = message{toUpdate, name, arg}
	}
	return out
}

// InterceptWorkflow implements interceptor.WorkerInterceptor.
func (b *binder) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	r := &receiver{codec: b.codec}
	r.Next = next
	return r
}

// SignalsRefused is the metric that counts signals without effect.
const SignalsRefused = "fairlead_refused_signals"

// A receiver refuses signals that were not encrypted for it, or that only workers may send.
type receiver struct {
	interceptor.WorkflowInboundInterceptorBase
	codec *Codec
}

// ExecuteWorkflow says in the context who wrote the input.
func (r *receiver) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	if o, ok := r.codec.starts.LoadAndDelete(workflow.GetInfo(ctx).WorkflowExecution.RunID); ok {
		ctx = workflow.WithValue(ctx, startKey{}, o)
	}
	return r.Next.ExecuteWorkflow(ctx, in)
}

// HandleQuery answers a query.
func (r *receiver) HandleQuery(ctx workflow.Context, in *interceptor.HandleQueryInput) (any, error) {
	out, err := r.Next.HandleQuery(ctx, in)
	if err != nil {
		return out, err
	}
	return purposed{purpose: forQuery(in.QueryType), value: out}, nil
}

func (r *receiver) Init(next interceptor.WorkflowOutboundInterceptor) error {
	out := &outbound{}
	out.Next = next
	return r.Next.Init(out)
}

// HandleSignal drops a signal that it refuses and logs why. The signal stays in the
// history, and every replay drops it again. A signal whose key is missing fails the task.
func (r *receiver) HandleSignal(ctx workflow.Context, in *interceptor.HandleSignalInput) error {
	info := workflow.GetInfo(ctx)
	mine := place{kind: ofWorkflow, workflow: info.WorkflowExecution.ID}
	at := mine.message(toSignal, in.SignalName)
	var opened []*commonpb.Payload
	var err error
	if len(in.Arg.GetPayloads()) == 0 {
		err = r.codec.absent(at, info.WorkflowStartTime)
	}
	for _, p := range in.Arg.GetPayloads() {
		var plain *commonpb.Payload
		if plain, err = r.codec.decodeAt(at, info.WorkflowStartTime, p); err != nil {
			break
		}
		opened = append(opened, plain)
	}
	if err == nil {
		var from Origin
		if from, err = r.codec.origin(info.WorkflowStartTime, "", in.Arg.GetPayloads()); err == nil {
			err = r.codec.takesFrom(from, at, info.WorkflowStartTime, Message{Name: in.SignalName})
			signalled(from, opened)
		}
	}
	if errors.Is(err, ErrNoKey) {
		return err
	}
	if err != nil {
		workflow.GetMetricsHandler(ctx).Counter(SignalsRefused).Inc(1)
		workflow.GetLogger(ctx).Error("refused a signal: it has no effect", "signal", shown(in.SignalName), "err", err)
		return nil
	}
	// The channel's converter knows only the workflow.
	checked := *in
	if in.Arg != nil {
		checked.Arg = &commonpb.Payloads{}
		if checked.Arg.Payloads, err = r.codec.encode(mine, opened); err != nil {
			return err
		}
	}
	return r.Next.HandleSignal(ctx, &checked)
}

// An outbound names the signals of a workflow and the purposes of what it writes, and opens
// the arguments of its updates.
type outbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	recorded int               // values
	notes    map[string]string // of updates whose handlers have not begun, by purpose
}

func (o *outbound) ExecuteChildWorkflow(ctx workflow.Context, workflowType string, args ...any) workflow.ChildWorkflowFuture {
	return o.Next.ExecuteChildWorkflow(ctx, workflowType, purposedAll(forInput(workflowType), args)...)
}

// NewContinueAsNewError returns the error that begins the next run. Where marks are required,
// wfn must be the name of a type: for a function, the SDK compares the arguments with its
// parameters, so they cannot get a purpose.
func (o *outbound) NewContinueAsNewError(ctx workflow.Context, wfn any, args ...any) error {
	if name, ok := wfn.(string); ok {
		args = purposedAll(forInput(name), args)
	}
	return o.Next.NewContinueAsNewError(ctx, wfn, args...)
}

func (o *outbound) SignalExternalWorkflow(ctx workflow.Context, workflowID, runID, name string, arg any) workflow.Future {
	return o.Next.SignalExternalWorkflow(ctx, workflowID, runID, name, message{toSignal, name, arg})
}

func (o *outbound) SignalChildWorkflow(ctx workflow.Context, workflowID, name string, arg any) workflow.Future {
	return o.Next.SignalChildWorkflow(ctx, workflowID, name, message{toSignal, name, arg})
}

// SideEffect returns a value that was recorded by a worker.
func (o *outbound) SideEffect(ctx workflow.Context, f func(workflow.Context) any) converter.EncodedValue {
	r, proves := ctx.Value(proofKey{}).(received)
	if !proves {
		r.purpose = forRecorded(workflow.GetInfo(ctx).OriginalRunID, o.recorded)
		o.recorded++
	}
	return fromWorkers{o.Next.SideEffect(ctx, func(ctx workflow.Context) any { return purposed{r.purpose, f(ctx), r.note} }), r.purpose}
}

// SetUpdateHandler sets a handler whose arguments are opened with the name of the update.
// The validator refuses what cannot be opened, so that it does not get into the history.
func (o *outbound) SetUpdateHandler(ctx workflow.Context, name string, handler any, opts workflow.UpdateHandlerOptions) error {
	f := reflect.TypeOf(handler)
	if f == nil || f.Kind() != reflect.Func || f.IsVariadic() || f.NumOut() == 0 {
		return o.Next.SetUpdateHandler(ctx, name, handler, opts) // the SDK refuses it
	}
	validator := opts.Validator
	if validator == nil {
		validator = acceptAll(f)
	}
	opts.Validator = o.opening(name, validator, false)
	return o.Next.SetUpdateHandler(ctx, name, o.opening(name, handler, true), opts)
}

var (
	contextType = reflect.TypeFor[workflow.Context]()
	errorType   = reflect.TypeFor[error]()
	sealedType  = reflect.TypeFor[sealed]()
)

// acceptAll returns a validator with the arguments of a handler.
func acceptAll(handler reflect.Type) any {
	var in []reflect.Type
	for i := range handler.NumIn() {
		in = append(in, handler.In(i))
	}
	return reflect.MakeFunc(reflect.FuncOf(in, []reflect.Type{errorType}, false), func([]reflect.Value) []reflect.Value {
		return []reflect.Value{reflect.Zero(errorType)}
	}).Interface()
}

// opening returns f with sealed arguments after the context, which it always takes. accepted
// says that f is the handler of an update that a validator has accepted. A replay runs no
// validator, so a worker that lacks the key of an accepted update fails the task: otherwise
// it would go on without the update.
func (o *outbound) opening(name string, f any, accepted bool) any {
	inner := reflect.ValueOf(f)
	t := inner.Type()
	first := 0
	if t.NumIn() > 0 && t.In(0) == contextType {
		first = 1
	}
	in := []reflect.Type{contextType}
	for range t.NumIn() - first {
		in = append(in, sealedType)
	}
	var out []reflect.Type
	for i := range t.NumOut() {
		out = append(out, t.Out(i))
	}
	answers := accepted && len(out) == 2
	if answers {
		out[0] = reflect.TypeFor[any]()
	}
	return reflect.MakeFunc(reflect.FuncOf(in, out, false), func(args []reflect.Value) []reflect.Value {
		ctx, _ := args[0].Interface().(workflow.Context)
		var open []reflect.Value
		if first == 1 {
			open = append(open, args[0])
		}
		from := Unknown
		var plain [][]byte
		var by dataConverter
		for i, arg := range args[1:] {
			s := arg.Interface().(sealed)
			v, data, o, err := s.open(ctx, name, t.In(first+i))
			plain, by = append(plain, data), s.by
			if i == 0 {
				from = o
			} else if o != from {
				from = FromOthers
			}
			if accepted && errors.Is(err, ErrNoKey) {
				panic(err)
			}
			if err != nil {
				return failing(out, err)
			}
			open = append(open, v)
		}
		purpose := forUpdate(name, digestOf(plain))
		r := received{from: from, by: by, purpose: purpose, to: o}
		if accepted && ctx != nil {
			r.note = o.noted(ctx, r)
		}
		if first == 1 && ctx != nil {
			open[0] = reflect.ValueOf(workflow.WithValue(ctx, messageKey{}, r))
		}
		res := inner.Call(open)
		if answers {
			answer := any(purposed{purpose, res[0].Interface(), r.note})
			res[0] = reflect.ValueOf(&answer).Elem()
		}
		return res
	}).Interface()
}

// failing returns zero results and, as the last one, an error.
func failing(out []reflect.Type, err error) []reflect.Value {
	var res []reflect.Value
	for _, t := range out[:len(out)-1] {
		res = append(res, reflect.Zero(t))
	}
	return append(res, reflect.ValueOf(&err).Elem())
}
