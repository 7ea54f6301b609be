package access

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

const (
	maxWhen    = 4096 // characters
	maxNesting = 50
	maxNodes   = 1000
	maxRegex   = 1000 // instructions
	maxCost    = 20_000
)

var texts = cel.MapType(cel.StringType, cel.StringType)

// variables are what conditions see.
var variables = map[string]*cel.Type{
	"who": cel.StringType, "groups": cel.ListType(cel.StringType), "verb": cel.StringType,
	"session": cel.StringType, "owner": cel.StringType, "labels": texts,
	"host.name": cel.StringType, "host.labels": texts,
	"seed": cel.StringType, "tenant": cel.StringType,
}

// facts give CEL a request.
type facts struct {
	a *Access
	r Request
}

// ResolveName implements cel.Activation.
func (f facts) ResolveName(name string) (any, bool) {
	o := f.r.Object
	switch name {
	case "who":
		return f.r.Who, true
	case "groups":
		all := append(f.a.Groups(f.r.Who), f.r.Groups...)
		slices.Sort(all)
		return slices.Compact(all), true
	case "verb":
		return string(f.r.Verb), true
	case "session":
		return o.Session, true
	case "owner":
		return o.Owner, true
	case "labels":
		return known(o.Labels), true
	case "host.name":
		return o.Host, !o.HostUnknown
	case "host.labels":
		if o.HostUnknown || o.Host != "" && o.HostLabels == nil {
			return nil, false
		}
		return known(o.HostLabels), true
	case "seed":
		return o.Seed, !o.SeedUnknown
	case "tenant":
		return o.Tenant, true
	}
	return nil, false
}

// Parent implements cel.Activation.
func (f facts) Parent() cel.Activation { return nil }

func known(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// excluded are functions of CEL that conditions cannot use. Those of time would read a time
// zone from the machine's files.
var excluded = []string{"timestamp", "duration", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear",
	"getFullYear", "getHours", "getMilliseconds", "getMinutes", "getMonth", "getSeconds", "bytes", "dyn", "type"}

// language compiles all conditions.
var language = sync.OnceValues(func() (*cel.Env, error) {
	subset := env.NewLibrarySubset()
	for _, name := range excluded {
		subset.ExcludeFunctions = append(subset.ExcludeFunctions, env.NewFunction(name))
	}
	options := []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(subset)),
		cel.HomogeneousAggregateLiterals(),
		cel.ParserRecursionLimit(maxNesting), cel.ParserExpressionSizeLimit(maxWhen),
		cel.ExpressionNodeLimit(maxNodes), cel.RegexProgramSizeLimit(maxRegex),
		// As in policies: a label that is not there is the empty text.
		cel.Function("get", cel.MemberOverload("labels_get_name", []*cel.Type{texts, cel.StringType}, cel.StringType,
			cel.BinaryBinding(func(m, key ref.Val) ref.Val {
				if v, ok := m.(traits.Mapper).Find(key); ok {
					return v
				}
				return types.String("")
			}))),
	}
	for name, t := range variables {
		options = append(options, cel.Variable(name, t))
	}
	return cel.NewCustomEnv(options...)
})

// compile returns the program of a condition. Its error names at most 3 mistakes.
func compile(when string) (cel.Program, error) {
	l, err := language()
	if err != nil {
		return nil, err
	}
	ast, issues := l.Compile(when)
	if issues.Err() != nil {
		var all []string
		for _, e := range issues.Errors()[:min(3, len(issues.Errors()))] {
			all = append(all, strings.ReplaceAll(oneLine(e.Message), " (in container '')", ""))
		}
		return nil, errors.New(strings.Join(all, "; "))
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		return nil, fmt.Errorf("it is of type %s and must be a condition", ast.OutputType())
	}
	program, err := l.Program(ast, cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost), cel.CostLimit(maxCost))
	if err != nil {
		return nil, errors.New(oneLine(err.Error()))
	}
	return program, nil
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
