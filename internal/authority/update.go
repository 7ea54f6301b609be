package authority

import (
	"reflect"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/access"
)

// Init gives the workflow's handlers of updates to an outbound, which is the first that sees
// them: their arguments are decrypted further out.
func (g *gated) Init(next interceptor.WorkflowOutboundInterceptor) error {
	out := &outbound{gate: g}
	out.Next = next
	return g.Next.Init(out)
}

// An outbound puts the judgement of commands before validators of updates.
type outbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	gate *gated
}

func (o *outbound) SetUpdateHandler(ctx workflow.Context, name string, handler any, opts workflow.UpdateHandlerOptions) error {
	verb, given := updates[name]
	f := reflect.TypeOf(handler)
	if !given || f == nil || f.Kind() != reflect.Func || f.NumIn() != 2 || f.IsVariadic() {
		return o.Next.SetUpdateHandler(ctx, name, handler, opts) // without a verb, or the SDK refuses it
	}
	opts.Validator = o.gate.validator(name, verb, f, opts.Validator)
	return o.Next.SetUpdateHandler(ctx, name, naming(handler), opts)
}

// validator returns a validator for a handler of type f. It judges the command before
// validate, which may be nil, sees it.
func (g *gated) validator(name string, verb access.Verb, f reflect.Type, validate any) any {
	failed := reflect.TypeFor[error]()
	return reflect.MakeFunc(reflect.FuncOf([]reflect.Type{f.In(0), f.In(1)}, []reflect.Type{failed}, false), func(in []reflect.Value) []reflect.Value {
		ctx := in[0].Interface().(workflow.Context)
		err := refusal(name, g.judge(workflow.GetInfo(ctx).WorkflowExecution.ID, name, verb, []any{in[1].Interface()}, 0))
		if err != nil || validate == nil {
			return []reflect.Value{reflect.ValueOf(&err).Elem()}
		}
		return reflect.ValueOf(validate).Call([]reflect.Value{in[0], namedValue(in[1])})
	}).Interface()
}

// naming returns a handler that gets the principal of a command in the field By.
func naming(handler any) any {
	f := reflect.ValueOf(handler)
	return reflect.MakeFunc(f.Type(), func(in []reflect.Value) []reflect.Value {
		return f.Call([]reflect.Value{in[0], namedValue(in[1])})
	}).Interface()
}

func namedValue(v reflect.Value) reflect.Value {
	return reflect.ValueOf(named([]any{v.Interface()})[0])
}
