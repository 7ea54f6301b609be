package authority

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
)

// Interceptor gives workflows the keeper of their worker, and refuses updates and starts
// that nobody may give. Every worker has it, also one whose keeper is nil, since it records
// what it decides: two events in the history of each workflow that a person starts.
func Interceptor(k *Keeper, o Options) interceptor.WorkerInterceptor {
	return &gate{keeper: k, opts: o}
}

// Options of an Interceptor. Each may be nil. None is called in a replay. Workflow code waits
// for the functions.
type Options struct {
	// Refused gets the records of updates and starts that were refused.
	Refused func(audit.Record)
	// Store writes records of a workflow, and reports whether the store has them. It does not
	// wait for a slow store: then the workflow writes them later.
	Store func(audit.Batch) bool
	// Revoked says which approvers' keys are revoked, where there is no keeper.
	Revoked *Keeper
	// Passkeys are those of the owner, where there is no keeper.
	Passkeys Passkeys
	// Leave fails the task, by a panic, if this worker does not know all of the input of a
	// workflow. It is called after the start is accepted, before anything is done for it.
	Leave func(ctx workflow.Context, args []any)
}

type gate struct {
	interceptor.WorkerInterceptorBase
	keeper *Keeper
	opts   Options
}

func (g *gate) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &gated{WorkflowInboundInterceptorBase: interceptor.WorkflowInboundInterceptorBase{Next: next}, keeper: g.keeper, opts: g.opts, hosts: &hostLabels{}}
}

type gated struct {
	interceptor.WorkflowInboundInterceptorBase
	keeper  *Keeper
	opts    Options
	hosts   *hostLabels
	nonces  *command.Nonces // see Remember
	ledger  *Ledger         // see Record
	started func(*Ledger) audit.Record
}

// ExecuteWorkflow refuses a start that nobody may give. Whether a worker wrote the input is
// the same at each replay. Whether a principal may start the workflow is recorded.
func (g *gated) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	ctx = workflow.WithValue(ctx, keeperKey{}, g.keeper)
	ctx = workflow.WithValue(ctx, refusedKey{}, g.opts.Refused)
	ctx = workflow.WithValue(ctx, revokedKey{}, cmp.Or(g.keeper, g.opts.Revoked))
	ctx = workflow.WithValue(ctx, passkeysKey{}, g.opts.Passkeys)
	ctx = workflow.WithValue(ctx, labelsKey{}, g.hosts)
	ctx = workflow.WithValue(ctx, gatedKey{}, g)
	info := workflow.GetInfo(ctx)
	name, r, origin := info.WorkflowType.Name, starts[info.WorkflowType.Name], payload.StartedBy(ctx)
	root := info.ParentWorkflowExecution == nil && info.ContinuedExecutionRunID == ""
	if g.keeper != nil && origin != payload.Unknown {
		if why := onlyByWorkers(name, root, origin, in.Args); why != "" {
			err := refusal(name, Verdict{Refused: why})
			if workflow.IsReplaying(ctx) {
				panic(err) // the task is tried again until a worker takes what began
			}
			g.recordStart(ctx, name, r, in.Args, Verdict{}, err)
			return nil, err
		}
	}
	if g.keeper != nil && root && r.verb != "" && !claimed[name] && wasReset(info) {
		panic(refusal(name, Verdict{Refused: "somebody has reset it, and a signed start counts once: terminate it, and give the command again"}))
	}
	judges := (root && r.verb != "" || claimed[name]) && Version(ctx) >= 1
	if judges && root && r.verb != "" {
		var v Verdict
		var to *protocol.HostSpec
		if len(in.Args) == 1 {
			to = machine(in.Args[0])
		}
		claimsHost := to != nil && Version(ctx) >= 2 && !claimed[name]
		err := workflow.SideEffect(ctx, func(workflow.Context) any {
			if g.keeper != nil && r.class == Either && origin == payload.FromWorker {
				return g.keeper.Sent(access.Worker)
			}
			v := g.judge(command.Start, info.WorkflowExecution.ID, name, r.verb, in.Args, command.KeptFor, claimsHost)
			v.User = g.user()
			return v
		}).Get(&v)
		if err == nil {
			err = refusal(name, v)
		}
		if err == nil && g.opts.Leave != nil {
			g.opts.Leave(ctx, in.Args)
		}
		if err == nil {
			g.started = starting(name, r, in.Args, v)
		}
		if err == nil && !claimed[name] {
			g.recordBegun(ctx, v)
			c := protocol.ClaimStart{Schedule: standsFor(in.Args)}
			if claimsHost {
				c.Judge = &protocol.JudgeStart{Principal: v.Principal, Groups: v.Groups, Verb: string(r.verb), Type: name, Host: *to, Seed: concerns(in.Args[0])[0].Seed}
			}
			err = Claim(ctx, name, v, c)
		}
		if err != nil {
			g.recordStart(ctx, name, r, in.Args, v, err)
			return nil, err
		}
		ctx = workflow.WithValue(ctx, verdictKey{}, v)
		given, own := in.Args, g.ledger // nil if the workflow opens one
		in.Args = grouped(named(in.Args), v.Groups)
		own.Keep()
		out, err := g.Next.ExecuteWorkflow(ctx, in)
		own.finish()
		if claimed[name] { // its own Claim may have refused it
			g.recordStart(ctx, name, r, given, v, err)
		}
		return out, err
	}
	return g.Next.ExecuteWorkflow(ctx, in)
}

// wasReset reports whether a run repeats an earlier one from some event on. Its history has the
// verdict on the start, but what the command does would be done again.
func wasReset(info *workflow.Info) bool {
	return info.OriginalRunID != "" && info.OriginalRunID != info.WorkflowExecution.RunID
}

// recordStart puts a refused start on record, once: not in a replay. Its history has the
// refusal, and no event more.
func (g *gated) recordStart(ctx workflow.Context, name string, r rule, args []any, v Verdict, err error) {
	var refused *temporal.ApplicationError
	if !errors.As(err, &refused) || refused.Type() != protocol.RefusedForbidden || workflow.IsReplaying(ctx) {
		return
	}
	r.verb = cmp.Or(r.verb, access.Verb(name))
	g.record(ctx, name, r, args, v, err)
}

// recordBegun opens a ledger with the start of a workflow that takes no commands. Checks that
// maintenance begins are no commands.
func (g *gated) recordBegun(ctx workflow.Context, v Verdict) {
	if Version(ctx) < 2 || v.Principal == access.Worker {
		return
	}
	g.ledger = open(ctx, new(audit.Chain), v.User)
	g.ledger.add(g.started(g.ledger))
}

// starting returns what makes the record of an accepted start. What a schedule starts is on
// record as what was signed: a command to the Schedule.
func starting(name string, r rule, args []any, v Verdict) func(*Ledger) audit.Record {
	return func(l *Ledger) audit.Record {
		object := cmp.Or(standsFor(args), workflow.GetInfo(l.ctx).WorkflowExecution.ID)
		var raw []byte
		var reason string
		if len(args) == 1 {
			raw, _ = marshal(args[0]) // if it cannot be marshalled, the record has no evidence
			if s, ok := args[0].(interface{ Says() string }); ok {
				reason = s.Says()
			}
		}
		rec := l.record(object, name, r.verb, raw, v.Principal, nil)
		rec.Reason, rec.Access = reason, v.JudgedBy()
		return rec
	}
}

// standsFor returns the Schedule of a standing command, or "".
func standsFor(args []any) (schedule string) {
	if len(args) == 1 {
		if s, ok := args[0].(StandingCommand); ok {
			schedule, _, _ = s.Stands()
		}
	}
	return schedule
}

// onlyByWorkers says why a start that only a worker may give is refused, or returns "".
func onlyByWorkers(name string, root bool, origin payload.Origin, args []any) string {
	r, known := starts[name]
	switch {
	case !root && origin != payload.FromWorker:
		return "a workflow that none of our workers ran started it, or Temporal repeats it, and only its first start is signed: start it anew with ctl"
	case !root && known && !within[name]:
		// A worker wrote the input, but perhaps not as an input: its mark names no type.
		return "no workflow of ours starts it: start it with ctl"
	case root && r.class == Internal && origin != payload.FromWorker:
		return "only a worker starts it"
	case root && r.class == Harmless && carries(args):
		return "it has the state of an earlier run, and only that run may pass it on"
	}
	return ""
}

// carries reports whether an input has the state of an earlier run.
func carries(args []any) bool {
	for _, arg := range args {
		v := reflect.ValueOf(arg)
		if v.Kind() != reflect.Struct {
			continue
		}
		if c := v.FieldByName("Carry"); c.IsValid() && !c.IsZero() {
			return true
		}
	}
	return false
}

// Init implements interceptor.WorkflowInboundInterceptor.
func (g *gated) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return g.Next.Init(&handlers{interceptor.WorkflowOutboundInterceptorBase{Next: next}, g})
}

// handlers puts the judge before the handlers of updates, where the arguments are decrypted.
type handlers struct {
	interceptor.WorkflowOutboundInterceptorBase
	gate *gated
}

var (
	contextType = reflect.TypeFor[workflow.Context]()
	errorType   = reflect.TypeFor[error]()
)

// SetUpdateHandler has commands judged before their validators. The handlers get the
// principal in the field By.
func (h *handlers) SetUpdateHandler(ctx workflow.Context, name string, handler any, opts workflow.UpdateHandlerOptions) error {
	f := reflect.TypeOf(handler)
	r := updates[name]
	if r.class != Internal && f != nil && f.Kind() == reflect.Func && !f.IsVariadic() && f.NumOut() > 0 {
		handler = h.gate.proved(handler, f.NumOut() == 1 || slowUpdates[name])
		f = reflect.TypeOf(handler)
	}
	if r.verb == "" || f == nil || f.Kind() != reflect.Func || f.IsVariadic() || f.NumOut() == 0 {
		return h.Next.SetUpdateHandler(ctx, name, handler, opts)
	}
	// The new functions take a context, also if the handler takes none.
	in := []reflect.Type{contextType}
	for i := range f.NumIn() {
		if t := f.In(i); i > 0 || t != contextType {
			in = append(in, t)
		}
	}
	validator := reflect.ValueOf(opts.Validator)
	opts.Validator = reflect.MakeFunc(reflect.FuncOf(in, []reflect.Type{errorType}, false), func(args []reflect.Value) []reflect.Value {
		uctx, _ := args[0].Interface().(workflow.Context)
		given := values(args[1:])
		v, err := h.gate.admit(uctx, name, r, given)
		if err == nil {
			err = h.gate.repeated(name, given)
		}
		if err == nil && validator.IsValid() {
			err, _ = called(validator, args)[0].Interface().(error)
		}
		if err != nil {
			h.gate.record(uctx, name, r, given, v, err)
		} else {
			Judged(uctx, v)
		}
		return []reflect.Value{reflect.ValueOf(&err).Elem()}
	}).Interface()
	var out []reflect.Type
	for i := range f.NumOut() {
		out = append(out, f.Out(i))
	}
	return h.Next.SetUpdateHandler(ctx, name, reflect.MakeFunc(reflect.FuncOf(in, out, false), func(args []reflect.Value) []reflect.Value {
		given := values(args[1:])
		// It may have come twice in one task, before the first was handled.
		if err := h.gate.repeated(name, given); err != nil {
			return failing(out, err)
		}
		uctx, _ := args[0].Interface().(workflow.Context)
		h.gate.took(uctx, given)
		b := h.gate.ledger.begun(name, r, given, JudgedBy(uctx))
		args = append([]reflect.Value{reflect.ValueOf(workflow.WithValue(uctx, begunKey{}, b))}, args[1:]...)
		res := called(reflect.ValueOf(handler), args)
		err, _ := res[len(res)-1].Interface().(error)
		b.answered(err)
		return res
	}).Interface(), opts)
}

// proved returns a handler that a replay calls only for updates that a worker of ours
// accepted: a replay runs no validators. The panic fails the task, which is tried again.
// waits says that the handler does not return a result in the task that accepted the update.
// Whether a value is recorded does not depend on who sent the update: programs without the
// workers' key do not know that.
func (g *gated) proved(handler any, waits bool) any {
	f := reflect.ValueOf(handler)
	t := f.Type()
	in := []reflect.Type{contextType}
	for i := range t.NumIn() {
		if p := t.In(i); i > 0 || p != contextType {
			in = append(in, p)
		}
	}
	var out []reflect.Type
	for i := range t.NumOut() {
		out = append(out, t.Out(i))
	}
	return reflect.MakeFunc(reflect.FuncOf(in, out, false), func(args []reflect.Value) []reflect.Value {
		ctx, _ := args[0].Interface().(workflow.Context)
		err := payload.Accepted(ctx)
		if k := g.keeper; err == nil && k != nil && workflow.IsReplaying(ctx) && !workflow.GetInfo(ctx).WorkflowStartTime.Before(k.required) {
			err = timely(ctx, args[1:])
		}
		if err != nil {
			panic(err)
		}
		b, _ := ctx.Value(begunKey{}).(*begun)
		if waits && Version(ctx) >= 2 {
			g.prove(ctx, b)
		}
		if t.NumIn() == 0 || t.In(0) != contextType {
			args = args[1:]
		}
		res := f.Call(args)
		if err, failed := res[len(res)-1].Interface().(error); failed && !waits && Version(ctx) >= 2 {
			b.fails(err)
			g.prove(ctx, b)
		}
		return res
	}).Interface()
}

// prove records that a worker of ours accepted an update, with its record, if the store takes
// that now. So the command costs one event. Otherwise the ledger writes the record, as it does for
// updates that need no such proof.
func (g *gated) prove(ctx workflow.Context, b *begun) {
	var also func() bool
	if batch := b.batch(); batch != nil && g.opts.Store != nil {
		also = func() bool { return g.opts.Store(*batch) }
	}
	if payload.Prove(ctx, also) {
		b.written()
	}
}

// timely returns an error if an update that is replayed was signed at another time than that of
// the task that took it. A proof does not name the run, so it would also count in a later run
// of the same workflow id. Validators compare with the clock of their worker, and the time of a
// task is the server's.
func timely(ctx workflow.Context, args []reflect.Value) error {
	a := authOf(values(args))
	if a == nil {
		return nil
	}
	at, err := time.Parse(time.RFC3339, a.At)
	if apart := workflow.Now(ctx).Sub(at).Abs(); err != nil || apart > 2*command.MaxSkew {
		return fmt.Errorf("replay an update that was signed at %.40q: it was taken at %s, more than %s apart, so it is one of an earlier run that somebody repeats: terminate the workflow, or reset it to before the update",
			a.At, workflow.Now(ctx).UTC().Format(time.RFC3339), 2*command.MaxSkew)
	}
	return nil
}

// called calls a handler or a validator with the context only if it takes one.
func called(f reflect.Value, args []reflect.Value) []reflect.Value {
	in := []reflect.Value{}
	for _, v := range named(values(args[1:])) {
		in = append(in, reflect.ValueOf(v))
	}
	if t := f.Type(); t.NumIn() > 0 && t.In(0) == contextType {
		in = append([]reflect.Value{args[0]}, in...)
	}
	return f.Call(in)
}

func values(args []reflect.Value) (out []any) {
	for _, a := range args {
		out = append(out, a.Interface())
	}
	return out
}

// admit judges an update, and says why it is refused, if it is.
func (g *gated) admit(ctx workflow.Context, name string, r rule, args []any) (v Verdict, err error) {
	if r.class == Either && payload.SentBy(ctx) == payload.FromWorker {
		return Verdict{Principal: access.Worker}, nil // which no access file says
	}
	v = g.judge(command.Update, workflow.GetInfo(ctx).WorkflowExecution.ID, name, r.verb, args, 0, false)
	return v, refusal(name, v)
}

// record puts a refused update or start on record, with its arguments as they were given.
func (g *gated) record(ctx workflow.Context, name string, r rule, args []any, v Verdict, err error) {
	if len(args) != 1 {
		return
	}
	if raw, merr := marshal(args[0]); merr == nil {
		refusedTo(g.opts.Refused, g.keeper, workflow.GetInfo(ctx).WorkflowExecution.ID, name, string(r.verb), raw, v, err)
	}
}

// marshal returns the JSON of a command. The JSON of a newer program may have fields that this
// program does not know. The signature covers them, too.
func marshal(arg any) ([]byte, error) {
	if of, ok := arg.(interface{ Given() []byte }); ok {
		if raw := of.Given(); raw != nil {
			return raw, nil
		}
	}
	return command.Marshal(arg)
}

// judge says whether a command counts. later says that conditions are asked by the activity
// ClaimStart, which knows the host.
func (g *gated) judge(kind command.Kind, workflowID, name string, verb access.Verb, args []any, waited time.Duration, later bool) Verdict {
	if g.keeper == nil {
		return Verdict{}
	}
	if len(args) != 1 {
		return Verdict{Refused: fmt.Sprintf("%s has %d arguments, and one can be signed", name, len(args))}
	}
	raw, err := marshal(args[0])
	if err != nil {
		return Verdict{Refused: err.Error()}
	}
	c := Command{Received: command.Received{Workflow: workflowID, Name: name, Kind: kind, Raw: raw, Waited: waited}, Verb: verb, Later: later}
	objects := g.hosts.objectsOf(workflowID, args[0])
	c.Object, c.More = objects[0], objects[1:]
	s, stands := args[0].(StandingCommand)
	if !stands {
		return g.keeper.Judge(c)
	}
	schedule, also, o := s.Stands()
	if schedule == "" {
		c.Later = true // conditions hold for what the Schedule starts
		return g.keeper.Judge(c)
	}
	c.Workflow, c.Object = schedule, o
	c.Received.Standing = true
	if workflowID != c.Workflow && !strings.HasPrefix(workflowID, c.Workflow+"-") {
		return Verdict{Refused: fmt.Sprintf("it was signed for %.100q, and this is %.100q", c.Workflow, workflowID)}
	}
	v := g.keeper.Judge(c)
	if v.Refused == "" {
		verbs := []access.Verb{also}
		if also == access.SessionStart && (c.Object.Seed != "" || c.Object.SeedUnknown) {
			verbs = append(verbs, access.SeedUse)
		}
		for _, verb := range verbs {
			if then := g.keeper.Allows(v.Principal, v.Groups, verb, c.Object); then.Refused != "" {
				v.Refused = then.Refused
			}
		}
	}
	if v.Refused != "" {
		v.Refused += ": the schedule starts nothing until that is changed, or until somebody who may do so deletes the schedule and creates it anew"
	}
	return v
}

// A StandingCommand was signed once and counts again and again. It is judged each time by
// the access file that is in force then.
type StandingCommand interface {
	// Stands returns the id of the Schedule that it is signed for, and what it begins. Without
	// an id, the command begins nothing and counts once, as others do.
	Stands() (schedule string, begins access.Verb, o access.Object)
}

func refusal(name string, v Verdict) error {
	if v.Refused == "" {
		return nil
	}
	return temporal.NewNonRetryableApplicationError(name+": "+v.Refused, protocol.RefusedForbidden, nil)
}

// named returns the arguments of a signed command with its principal in the field By.
func named(args []any) []any {
	if len(args) != 1 {
		return args
	}
	c, ok := args[0].(interface{ CommandAuth() *protocol.Auth })
	if !ok || c.CommandAuth() == nil {
		return args
	}
	v := reflect.New(reflect.TypeOf(args[0])).Elem()
	v.Set(reflect.ValueOf(args[0]))
	if by := v.FieldByName("By"); by.IsValid() && by.Kind() == reflect.String {
		by.SetString(c.CommandAuth().Principal)
	}
	return []any{v.Interface()}
}

// grouped returns the arguments of a start with the groups of its principal in the field
// Groups, whatever was there.
func grouped(args []any, groups []string) []any {
	if len(args) != 1 || args[0] == nil || reflect.TypeOf(args[0]).Kind() != reflect.Struct {
		return args
	}
	v := reflect.New(reflect.TypeOf(args[0])).Elem()
	v.Set(reflect.ValueOf(args[0]))
	to := v.FieldByName("Groups")
	if !to.IsValid() || to.Type() != reflect.TypeFor[[]string]() {
		return args
	}
	to.Set(reflect.ValueOf(groups))
	return []any{v.Interface()}
}
