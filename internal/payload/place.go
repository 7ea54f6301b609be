package payload

import (
	"net/url"
	"strings"
	"time"

	"go.temporal.io/sdk/converter"
)

// A place is where a payload belongs. The zero place is the whole namespace. It is used
// where the SDK does not say which workflow a payload is for, such as a schedule's memo.
type place struct {
	kind     placeKind
	workflow string // id
	name     string // of the activity's type, the signal or the update
	// failure means that an error is read there. A workflow that fails with an activity's
	// error passes it on as the activity wrote it.
	failure bool
}

type placeKind int

const (
	inNamespace placeKind = iota
	ofWorkflow            // input, result, answers, memo, markers
	ofActivity            // input, result, heartbeats
	toSignal
	toUpdate
)

// placeOf returns the place for which the SDK converts. The namespace is always the
// codec's: a replay has another name for it.
func placeOf(ctx converter.SerializationContext) place {
	switch ctx := ctx.(type) {
	case converter.WorkflowSerializationContext:
		return place{kind: ofWorkflow, workflow: ctx.WorkflowID}
	case converter.ActivitySerializationContext:
		return place{kind: ofActivity, workflow: ctx.WorkflowID, name: ctx.ActivityType}
	}
	return place{}
}

// message returns the place of a signal or update to the same workflow.
func (p place) message(kind placeKind, name string) place {
	return place{kind: kind, workflow: p.workflow, name: name}
}

// String is authenticated and stands in the payload's metadata. Different places have
// different strings.
func (p place) String() string {
	id, name := url.PathEscape(p.workflow), url.PathEscape(p.name)
	switch p.kind {
	case ofWorkflow:
		return "workflow/" + id
	case ofActivity:
		return "activity/" + id + "/" + name
	case toSignal:
		return "workflow/" + id + "/signal/" + name
	case toUpdate:
		return "workflow/" + id + "/update/" + name
	}
	return ""
}

// takes reports whether what was encrypted for the place bound may be read here.
func (p place) takes(bound string) bool {
	if bound == p.String() {
		return true
	}
	if p.failure && p.kind == ofWorkflow && strings.HasPrefix(bound, "activity/"+url.PathEscape(p.workflow)+"/") {
		return true
	}
	base, ok := p.scheduled()
	return ok && bound == base.String()
}

// scheduled returns the place for which the input of a workflow that a schedule started was
// encrypted. Temporal appends the time to the id of the schedule's action.
func (p place) scheduled() (place, bool) {
	n := len(p.workflow) - len("2006-01-02T15:04:05Z")
	if p.kind != ofWorkflow || n < 2 || p.workflow[n-1] != '-' {
		return place{}, false
	}
	if _, err := time.Parse("2006-01-02T15:04:05Z", p.workflow[n:]); err != nil {
		return place{}, false
	}
	return place{kind: ofWorkflow, workflow: p.workflow[:n-1]}, true
}

// describe names the place in an error.
func (p place) describe() string {
	switch p.kind {
	case ofWorkflow:
		return "workflow " + shown(p.workflow)
	case ofActivity:
		return "activity " + shown(p.name) + " of workflow " + shown(p.workflow)
	case toSignal:
		return "signal " + shown(p.name) + " to workflow " + shown(p.workflow)
	case toUpdate:
		return "update " + shown(p.name) + " of workflow " + shown(p.workflow)
	}
	return "the namespace"
}

// shown cuts a name that may be anybody's, and escapes what is not printable ASCII.
func shown(name string) string {
	const most = 200
	var out strings.Builder
	for i, r := range name {
		if i >= most {
			return out.String() + "…"
		}
		if r < ' ' || r > '~' {
			r = '?'
		}
		out.WriteRune(r)
	}
	return out.String()
}
