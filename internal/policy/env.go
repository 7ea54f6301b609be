package policy

import (
	"reflect"
	"slices"
	"sort"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/ext"

	"fairlead.dev/fairlead/internal/shellwords"
)

const (
	maxWhen    = 4096 // characters
	maxNesting = 50
	maxNodes   = 2000
	maxRegex   = 1000 // instructions

	// maxRuleCost and maxCost bound one rule, and all rules for a request, in CEL's units.
	// The time of CEL's counting grows with the square of the count (see
	// BenchmarkTheWorstRules).
	maxRuleCost = 100_000
	maxCost     = 200_000
)

var (
	words  = cel.ListType(cel.StringType)
	labels = cel.MapType(cel.StringType, cel.StringType)
)

// variables are the facts that rules see.
var variables = map[string]*cel.Type{
	"kind": cel.StringType, "action": cel.StringType,
	"command": cel.StringType, "words": words, "plain": cel.BoolType,
	"cwd": cel.StringType, "work": cel.StringType,
	"paths": words, "grant_root": cel.StringType, "changes": cel.ListType(cel.ObjectType("policy.Change")),
	"network_host": cel.StringType,
	"wants.read":   words, "wants.write": words, "wants.network": cel.BoolType, "wants.other": cel.BoolType,
	"digest": cel.StringType, "reason": cel.StringType,
	"session": cel.StringType, "turn": cel.IntType, "model": cel.StringType, "requester": cel.StringType,
	"host.name": cel.StringType, "host.labels": labels,
	"counts.in_turn": cel.IntType, "counts.in_minute": cel.IntType, "counts.in_session": cel.IntType,
	"counts.accepted": cel.IntType, "counts.declined": cel.IntType,
	"server": cel.StringType, "tool": cel.StringType, "arguments": cel.StringType,
}

// value returns a variable, or false for an unknown name.
func (f *facts) value(name string) (v any, found bool) {
	switch name {
	case "kind":
		return f.Kind, true
	case "action":
		return f.Action, true
	case "command":
		return f.Command, true
	case "words":
		return f.words, true
	case "plain":
		return f.plain, true
	case "cwd":
		return cleaned(f.CWD), true
	case "work":
		return cleaned(f.Work), true
	case "paths":
		return f.Paths, true
	case "grant_root":
		return f.GrantRoot, true
	case "changes":
		return f.Changes, true
	case "network_host":
		return f.NetworkHost, true
	case "wants.read":
		return f.wants.read, true
	case "wants.write":
		return f.wants.write, true
	case "wants.network":
		return f.wants.network, true
	case "wants.other":
		return f.wants.other, true
	case "digest":
		return f.Digest, true
	case "reason":
		return f.Reason, true
	case "session":
		return f.Session, true
	case "turn":
		return f.Turn, true
	case "model":
		return f.Model, true
	case "requester":
		return f.Requester, true
	case "host.name":
		return f.Host.Name, true
	case "host.labels":
		return ordered(f.Host.Labels), true
	case "counts.in_turn":
		return f.Counts.InTurn, true
	case "counts.in_minute":
		return f.Counts.InMinute, true
	case "counts.in_session":
		return f.Counts.InSession, true
	case "counts.accepted":
		return f.Counts.Accepted, true
	case "counts.declined":
		return f.Counts.Declined, true
	case "server":
		return f.Server, true
	case "tool":
		return f.Tool, true
	case "arguments":
		return f.Arguments, true
	}
	return nil, false
}

// ResolveName implements cel.Activation.
func (f *facts) ResolveName(name string) (any, bool) {
	f.looked = f.looked || slices.Contains(places, name)
	return f.value(name)
}

// Parent implements cel.Activation.
func (f *facts) Parent() cel.Activation { return nil }

// A sortedMap iterates in the order of its keys.
type sortedMap struct {
	traits.Mapper
	keys []string
}

func ordered(m map[string]string) ref.Val {
	s := sortedMap{Mapper: types.NewStringStringMap(types.DefaultTypeAdapter, m)}
	for k := range m {
		s.keys = append(s.keys, k)
	}
	sort.Strings(s.keys)
	return s
}

func (s sortedMap) Iterator() traits.Iterator {
	return types.NewStringList(types.DefaultTypeAdapter, s.keys).Iterator()
}

// excluded are functions of CEL that rules cannot use. Those of time would read a time zone
// from the machine's files.
var excluded = []string{"timestamp", "duration", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear",
	"getFullYear", "getHours", "getMilliseconds", "getMinutes", "getMonth", "getSeconds", "bytes", "dyn", "type"}

// language compiles all rules.
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
		ext.NativeTypes(reflect.TypeFor[Change](), ext.ParseStructTags(true)),
	}
	for name, t := range variables {
		options = append(options, cel.Variable(name, t))
	}
	return cel.NewCustomEnv(append(options, functions...)...)
})

// functions are those that Fairlead adds.
var functions = []cel.EnvOption{
	cel.Function("starts", cel.MemberOverload("words_starts_words", []*cel.Type{words, words}, cel.BoolType,
		cel.BinaryBinding(func(list, prefix ref.Val) ref.Val { return starts(list.(traits.Lister), prefix.(traits.Lister)) }))),
	cel.Function("under",
		cel.MemberOverload("path_under_folder", []*cel.Type{cel.StringType, cel.StringType}, cel.BoolType,
			cel.BinaryBinding(func(p, folder ref.Val) ref.Val { return types.Bool(under(text(p), text(folder))) })),
		cel.MemberOverload("paths_under_folder", []*cel.Type{words, cel.StringType}, cel.BoolType,
			cel.BinaryBinding(func(ps, folder ref.Val) ref.Val { return allUnder(ps.(traits.Lister), text(folder)) }))),
	cel.Function("within", cel.MemberOverload("host_within_domain", []*cel.Type{cel.StringType, cel.StringType}, cel.BoolType,
		cel.BinaryBinding(func(host, of ref.Val) ref.Val { return types.Bool(within(text(host), text(of))) }))),
	cel.Function("get", cel.MemberOverload("labels_get_name", []*cel.Type{labels, cel.StringType}, cel.StringType,
		cel.BinaryBinding(func(m, key ref.Val) ref.Val {
			if v, ok := m.(traits.Mapper).Find(key); ok {
				return v
			}
			return types.String("")
		}))),
	cel.Function("split", cel.Overload("split_command", []*cel.Type{cel.StringType}, words,
		cel.UnaryBinding(func(command ref.Val) ref.Val {
			some, _ := shellwords.Split(text(command))
			return types.NewStringList(types.DefaultTypeAdapter, some)
		}))),
}

func text(v ref.Val) string { return string(v.(types.String)) }

func length(l traits.Lister) int { return int(l.Size().(types.Int)) }

// starts is false for an empty prefix, which would match a command that cannot be split.
func starts(list, prefix traits.Lister) ref.Val {
	n := length(prefix)
	if n == 0 || n > length(list) {
		return types.False
	}
	for i := range n {
		if list.Get(types.Int(i)).Equal(prefix.Get(types.Int(i))) != types.True {
			return types.False
		}
	}
	return types.True
}

// allUnder is false without paths, because then it is unknown which ones the request is
// about.
func allUnder(paths traits.Lister, folder string) ref.Val {
	n := length(paths)
	for i := range n {
		if !under(text(paths.Get(types.Int(i))), folder) {
			return types.False
		}
	}
	return types.Bool(n > 0)
}

// costs gives CEL the cost of our functions.
type costs struct{}

func (costs) CallCost(_, overload string, args []ref.Val, _ ref.Val) *uint64 {
	cost := uint64(1)
	switch overload {
	case "words_starts_words":
		cost += uint64(length(args[1].(traits.Lister)))
	case "paths_under_folder":
		cost += 2 * uint64(length(args[0].(traits.Lister)))
	case "path_under_folder", "host_within_domain", "split_command":
		for _, a := range args {
			cost += uint64(len(text(a))) / 10
		}
	case overloads.SizeString, overloads.SizeStringInst:
		cost += uint64(len(text(args[0]))) / 10 // CEL counts 1, but the call walks the characters
	case "labels_get_name":
	default:
		return nil // CEL's own
	}
	return &cost
}

func oneLine(s string) string {
	return strings.Join(strings.Fields(s), " ")
}
