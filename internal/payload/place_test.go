package payload

import (
	"errors"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"
)

var places = []place{
	{},
	{kind: ofWorkflow, workflow: "session/a"},
	{kind: ofWorkflow, workflow: "session/b"},
	{kind: ofWorkflow, workflow: "session/a/signal/close"},
	{kind: ofActivity, workflow: "session/a", name: "Attach"},
	{kind: ofActivity, workflow: "session/a", name: "Exec"},
	{kind: ofActivity, workflow: "session/b", name: "Attach"},
	{kind: toSignal, workflow: "session/a", name: "close"},
	{kind: toSignal, workflow: "session/a", name: "interrupt"},
	{kind: toUpdate, workflow: "session/a", name: "close"},
	{kind: toUpdate, workflow: "session/b", name: "close"},
}

// old returns a payload as before payloads were bound to a place.
func old(t testing.TB, c *Codec, p *commonpb.Payload) *commonpb.Payload {
	t.Helper()
	raw, err := proto.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	s := c.sealers()[0]
	data, err := s.cipher.seal(append(make([]byte, nonceSize, nonceSize+len(raw)+tagSize), raw...), s.boundToNamespace(c.namespace))
	if err != nil {
		t.Fatal(err)
	}
	return &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte(encoding), metadataKeyID: []byte(s.id)}, Data: data}
}

func bound(t testing.TB, c *Codec, at place, p *commonpb.Payload) *commonpb.Payload {
	t.Helper()
	out, err := c.encode(at, []*commonpb.Payload{p})
	if err != nil {
		t.Fatal(err)
	}
	return out[0]
}

func TestAPayloadIsReadOnlyAtItsPlace(t *testing.T) {
	c := NewCodec("default", key(t))
	p := plain(t, "hello")
	for _, from := range places {
		sealed := bound(t, c, from, p)
		for _, to := range places {
			got, err := c.decodeAt(to, time.Time{}, sealed)
			switch {
			case from == to && (err != nil || !proto.Equal(got, p)):
				t.Errorf("%s: %v, %v", to.describe(), got, err)
			case from != to && (!errors.Is(err, ErrMoved) || got != nil || !strings.Contains(err.Error(), to.describe())):
				t.Errorf("from %s to %s: %v, %v", from.describe(), to.describe(), got, err)
			}
			// Whoever moves it may change what it says of its place.
			liar := proto.CloneOf(sealed)
			liar.Metadata[metadataPlace] = []byte(to.String())
			if got, err := c.decodeAt(to, time.Time{}, liar); from != to && (!errors.Is(err, ErrTorn) || got != nil) {
				t.Errorf("from %s to %s, renamed: %v, %v", from.describe(), to.describe(), got, err)
			}
		}
		if got, err := decode(c, sealed); err != nil || !proto.Equal(got, p) {
			t.Errorf("the UI reads that for %s as %v, %v", from.describe(), got, err)
		}
	}
}

// A workflow that fails because an activity failed passes on what the activity wrote.
func TestTheErrorOfAnActivityIsReadAsThatOfItsWorkflowAndOfNoOther(t *testing.T) {
	c := NewCodec("default", key(t))
	at := func(ctx converter.SerializationContext) converter.FailureConverter {
		return c.FailureConverter().(converter.FailureConverterWithSerializationContext).WithSerializationContext(ctx)
	}
	activity := converter.ActivitySerializationContext{Namespace: "default", WorkflowID: "session/a b", ActivityType: "Do"}
	failure := at(activity).ErrorToFailure(temporal.NewApplicationError("the file is empty", "bad_input", "a detail"))
	for id, read := range map[string]bool{"session/a b": true, "session/a": false, "session/b": false} {
		err := at(converter.WorkflowSerializationContext{Namespace: "default", WorkflowID: id}).FailureToError(failure)
		var app *temporal.ApplicationError
		var detail string
		if !errors.As(err, &app) || app.Type() != "bad_input" || strings.Contains(err.Error(), "the file is empty") != read || (app.Details(&detail) == nil && detail == "a detail") != read {
			t.Errorf("in %s: %v, %q", id, err, detail)
		}
	}
	result, err := c.DataConverter().(converter.DataConverterWithSerializationContext).WithSerializationContext(activity).ToPayload("a result")
	if err != nil {
		t.Fatal(err)
	}
	var out string
	if err := c.DataConverter().(converter.DataConverterWithSerializationContext).WithSerializationContext(converter.WorkflowSerializationContext{WorkflowID: "session/a b"}).FromPayload(result, &out); err == nil {
		t.Errorf("an activity's result is read as its workflow's: %q", out)
	}
}

func TestAScheduledWorkflowReadsTheInputOfItsSchedule(t *testing.T) {
	c := NewCodec("default", key(t))
	p := plain(t, "hello")
	for id, ok := range map[string]bool{
		"nightly-2026-11-27T03:00:00Z": true, "nightly": true, "nightly-2026-11-27": false, "nightly2026-11-27T03:00:00Z": false,
		"other-2026-11-27T03:00:00Z": false, "nightly-2026-13-27T03:00:00Z": false, "-2026-11-27T03:00:00Z": false,
		"nightly-2026-11-27T03:00:00Z-2026-11-27T03:00:00Z": false,
	} {
		sealed := bound(t, c, place{kind: ofWorkflow, workflow: "nightly"}, p)
		if _, err := c.decodeAt(place{kind: ofWorkflow, workflow: id}, time.Time{}, sealed); (err == nil) != ok {
			t.Errorf("%s: %v", id, err)
		}
		for _, kind := range []placeKind{ofActivity, toSignal, toUpdate} {
			if _, err := c.decodeAt(place{kind: kind, workflow: id}, time.Time{}, sealed); !errors.Is(err, ErrMoved) {
				t.Errorf("%s, kind %d: %v", id, kind, err)
			}
		}
	}
}

func TestOlderFormsAreReadOnlyWhereAWorkflowBeganBeforeTheTimeThatTheUserNames(t *testing.T) {
	k := key(t)
	since := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	strict := NewCodec("default", k)
	migrating := strict.Since(since)
	p := plain(t, "hello")
	at := place{kind: ofWorkflow, workflow: "session/a"}
	for name, met := range map[string]*commonpb.Payload{"plain": p, "of the namespace": old(t, strict, p)} {
		for began, ok := range map[time.Time]bool{since.Add(-time.Second): true, since: false, since.Add(time.Hour): false, {}: true} {
			got, err := migrating.decodeAt(at, began, met)
			if ok && (err != nil || !proto.Equal(got, p)) || !ok && (!errors.Is(err, ErrOlder) || got != nil) {
				t.Errorf("%s, began %s: %v, %v", name, began, got, err)
			}
			if !ok && !strings.Contains(err.Error(), "2026-11-27T12:00:00Z") {
				t.Errorf("the error does not say since when: %v", err)
			}
			if _, err := strict.decodeAt(at, began, met); !errors.Is(err, ErrOlder) || !strings.Contains(err.Error(), "temporal.payloads_since") {
				t.Errorf("%s, began %s, while it is required: %v", name, began, err)
			}
		}
		if got, err := decode(strict, met); err != nil || !proto.Equal(got, p) {
			t.Errorf("%s is shown as %v, %v", name, got, err)
		}
	}
	if _, err := NewCodec("default").decodeAt(at, since.Add(time.Hour), p); err != nil {
		t.Errorf("without a key, plain: %v", err)
	}
	if _, err := NewCodec("other", k).Since(since).decodeAt(at, time.Time{}, old(t, strict, p)); !errors.Is(err, ErrTorn) {
		t.Errorf("an older one of another namespace: %v", err)
	}
}

// An older program takes the new form for one whose key it lacks. That makes its workflows
// wait.
func TestTheNewFormHasAnotherKeyID(t *testing.T) {
	c := NewCodec("default", key(t))
	p := plain(t, "hello")
	if id := string(encode(t, c, p).Metadata[metadataKeyID]); id == c.sealers()[0].id || !strings.HasPrefix(id, c.sealers()[0].id) {
		t.Errorf("the id is %q", id)
	}
	if !Older(p) || !Older(old(t, c, p)) || Older(encode(t, c, p)) {
		t.Error("forms are mixed up")
	}
}

func TestAMissingArgumentIsNotAnEmptyOne(t *testing.T) {
	since := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	c := NewCodec("default", key(t)).Since(since)
	var v string
	for name, none := range map[string]*commonpb.Payloads{"nil": nil, "empty": {}} {
		if err := c.Of("session/a", since).FromPayloads(none, &v); !errors.Is(err, ErrOlder) {
			t.Errorf("%s: %v", name, err)
		}
		if err := c.Of("session/a", since.Add(-1)).FromPayloads(none, &v); err != nil {
			t.Errorf("%s, before the upgrade: %v", name, err)
		}
		if err := c.Of("session/a", since).FromPayloads(none); err != nil {
			t.Errorf("%s, and none wanted: %v", name, err)
		}
		if err := NewCodec("default").Of("session/a", since).FromPayloads(none, &v); err != nil {
			t.Errorf("%s, without a key: %v", name, err)
		}
	}
}

func TestRebindOnlyBindsWhatIsOlder(t *testing.T) {
	c := NewCodec("default", key(t))
	p := plain(t, "hello")
	in := []*commonpb.Payload{p, old(t, c, p), bound(t, c, place{kind: ofWorkflow, workflow: "elsewhere"}, p)}
	out, changed, err := c.Rebind("nightly", in)
	if err != nil || !changed {
		t.Fatalf("changed %v, %v", changed, err)
	}
	for i := range 2 {
		if err := c.Accepts("nightly", time.Time{}, out[i]); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	if out[2] != in[2] {
		t.Error("one that was bound to another workflow was bound anew")
	}
	if _, changed, err := c.Rebind("nightly", out); changed || err != nil {
		t.Errorf("a second time: %v, %v", changed, err)
	}
}

// Whatever is met, decoding neither fails other than by an *Error, nor returns what was not
// encrypted for the place.
func FuzzDecode(f *testing.F) {
	secret := Key{id: "0123456789abcdef"}
	c := NewCodec("default", secret)
	p := plain(f, "hello")
	for _, at := range places {
		raw, err := proto.Marshal(bound(f, c, at, p))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, at.workflow, at.name, int(at.kind))
	}
	raw, err := proto.Marshal(old(f, c, p))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw, "session/a", "close", int(toSignal))
	f.Fuzz(func(t *testing.T, raw []byte, workflow, name string, kind int) {
		met := &commonpb.Payload{}
		if proto.Unmarshal(raw, met) != nil {
			return
		}
		at := place{kind: placeKind(((kind % 5) + 5) % 5), workflow: workflow, name: name}
		got, err := c.decodeAt(at, time.Time{}, met)
		var e *Error
		switch {
		case err == nil && !at.takes(string(met.Metadata[metadataPlace])):
			t.Errorf("%s is read as %v", at, got)
		case err == nil && string(met.Metadata[converter.MetadataEncoding]) != encoding:
			t.Errorf("a payload that is not encrypted is read as %v", got)
		case err != nil && (!errors.As(err, &e) || got != nil):
			t.Errorf("%v, %v", got, err)
		}
		if err != nil && strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' }) {
			t.Errorf("the error has a control character: %q", err.Error())
		}
		if _, err := c.Decode([]*commonpb.Payload{met}); err != nil && !errors.As(err, &e) {
			t.Errorf("shown: %v", err)
		}
	})
}
