package httpapi

import (
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"fairlead.dev/fairlead/internal/protocol"
)

// nameOf names the schema of a type. Those of package audit share words with others.
func nameOf(t reflect.Type, hint string) string {
	of := t
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	name := huma.DefaultSchemaNamer(t, hint)
	if strings.HasSuffix(of.PkgPath(), "/internal/audit") {
		return "Audit" + name
	}
	return name
}

// unknowns are fields of views that are null while no worker answers.
var unknowns = map[reflect.Type][]string{
	reflect.TypeFor[protocol.SessionView](): {"requests", "attempt", "process", "usage", "messages", "updated_at"},
	reflect.TypeFor[protocol.TurnBrief]():   {"id", "status", "started_at"},
}

// asked are the types of requests, which have no other fields. Answers may get more fields
// in later versions.
var asked = []reflect.Type{
	reflect.TypeFor[StartSession](), reflect.TypeFor[NewMessage](), reflect.TypeFor[DecideApproval](), reflect.TypeFor[Reasoned](),
	reflect.TypeFor[Closing](), reflect.TypeFor[Drain](), reflect.TypeFor[Trigger](), reflect.TypeFor[StartBatch](), reflect.TypeFor[Retry](),
	reflect.TypeFor[BatchItem](), reflect.TypeFor[NewSchedule](), reflect.TypeFor[Resuming](), reflect.TypeFor[Nothing](), reflect.TypeFor[protocol.Budget](),
	reflect.TypeFor[KeepSnapshots](), reflect.TypeFor[MayStart](), reflect.TypeFor[Repo](), reflect.TypeFor[Hooks](), reflect.TypeFor[FollowUp](),
	reflect.TypeFor[protocol.Input](), reflect.TypeFor[SessionSettings](), reflect.TypeFor[Unsending](), reflect.TypeFor[Reviewing](), reflect.TypeFor[Pushing](), reflect.TypeFor[NewHost](),
	reflect.TypeFor[HostSettings](), reflect.TypeFor[PoolSettings](), reflect.TypeFor[SeedSettings](), reflect.TypeFor[SeedVerification](), reflect.TypeFor[protocol.Ceiling](),
	reflect.TypeFor[BatchSettings](), reflect.TypeFor[RetryingBatch](), reflect.TypeFor[Backfill](),
	reflect.TypeFor[FollowUpAfter](), reflect.TypeFor[FollowUpBudget](),
}

// describeViews makes the schemas of answers say what encoding/json writes: null for a nil
// pointer or map that is not left out, and room for later fields.
func describeViews(r huma.Registry) {
	for name, s := range r.Map() {
		t := r.TypeFromRef("#/components/schemas/" + name)
		if t == nil || t.Kind() != reflect.Struct || slices.Contains(asked, t) {
			continue
		}
		if s.AdditionalProperties == false {
			s.AdditionalProperties = nil
		}
		for _, f := range reflect.VisibleFields(t) {
			word, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
			left := strings.Contains(rest, "omitempty") || strings.Contains(rest, "omitzero")
			isNil := f.Type.Kind() == reflect.Pointer || f.Type.Kind() == reflect.Map
			if p := s.Properties[word]; p != nil && (isNil && !left || slices.Contains(unknowns[t], word)) {
				s.Properties[word] = orNull(p)
			}
		}
	}
}

func orNull(p *huma.Schema) *huma.Schema {
	if p.Ref == "" {
		p.Nullable = true
		return p
	}
	return &huma.Schema{AnyOf: []*huma.Schema{{Ref: p.Ref}, {Type: "null"}}}
}
