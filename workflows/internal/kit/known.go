package kit

import (
	"bytes"
	"encoding/json"
	"strings"

	"go.temporal.io/sdk/workflow"
)

const unknownField = "json: unknown field "

// A Newer is what a newer program wrote into the input of a workflow. The zero Newer is nothing.
type Newer struct {
	field string
	given []byte
}

// Fields returns what Unknown of an input reports: the field that Known found, if any.
func (n Newer) Fields() []string {
	if n.field == "" {
		return nil
	}
	return []string{"field " + n.field}
}

// Given returns the JSON of the whole input, or nil if this program knows all fields.
func (n Newer) Given() []byte { return n.given }

// Known decodes the JSON of a workflow's input, and returns the first field that this program
// does not know.
func Known(raw []byte, into any) (Newer, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	//workflowcheck:ignore // JSON is a pure function
	err := d.Decode(into)
	if err == nil {
		return Newer{}, nil
	}
	name, ok := strings.CutPrefix(err.Error(), unknownField)
	if !ok {
		return Newer{}, err
	}
	//workflowcheck:ignore // as above
	return Newer{Cut(strings.Trim(name, `"`), MaxWord), bytes.Clone(raw)}, json.Unmarshal(raw, into)
}

// Within returns n with the JSON of the whole input, for an input a part of which has a field
// that this program does not know.
func (n Newer) Within(raw []byte) Newer { return Newer{n.field, bytes.Clone(raw)} }

type leaveKey struct{}

// Leaving returns a context of a workflow that this worker leaves to newer ones. leave fails the
// task: it panics. See workflows/newer.
func Leaving(ctx workflow.Context, leave func()) workflow.Context {
	return workflow.WithValue(ctx, leaveKey{}, leave)
}

// Lacks reports whether this worker lacks something that the input of the workflow needs. Such a
// workflow must call Leave after it has judged who starts it.
func Lacks(ctx workflow.Context) bool { return ctx.Value(leaveKey{}) != nil }

// Leave fails the task of a workflow of which Lacks is true: it panics.
func Leave(ctx workflow.Context) {
	if leave, ok := ctx.Value(leaveKey{}).(func()); ok {
		leave()
	}
}
