package activities

import (
	"context"
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

const answerDigest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// TestSecretAnswersAreThereUntilCodexHasThem also checks that their texts are
// hidden as long as the session lives, in that session alone, and by workers that
// never saw them.
func TestSecretAnswersAreThereUntilCodexHasThem(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost})
	s := b.set.site
	const secret = "hunter2 and then some"
	blob, err := site.StoreAnswers(t.Context(), b.store, "s1", answerDigest, "", map[string][]string{"password": {secret}})
	if err != nil || !strings.HasPrefix(blob, "answers/s1/0123456789abcdef-") {
		t.Fatalf("stored as %q (%v)", blob, err)
	}
	there := func(key string) bool {
		t.Helper()
		ok, err := b.store.Exists(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	told := site.ToldPrefix + strings.TrimPrefix(blob, site.AnswersPrefix)
	due := func() []conversation.Send {
		return []conversation.Send{{ID: "s1.a1", Kind: conversation.SendDecision, Answers: map[string][]string{"user": {"ann"}}, AnswersBlob: blob}, {ID: "m1", Kind: conversation.SendTurn}}
	}
	want := map[string][]string{"user": {"ann"}, "password": {secret}}
	sends := due()
	if err := site.FillAnswers(t.Context(), s, "s1", sends); err != nil || !reflect.DeepEqual(sends[0].Answers, want) {
		t.Fatalf("filled with %v (%v)", sends[0].Answers, err)
	}
	// Another attempt runs before the answers are known to be delivered.
	for _, state := range []protocol.DeliveryState{protocol.Decided, protocol.Sent} {
		site.DropAnswers(t.Context(), s, sends, []protocol.Delivery{{ID: "s1.a1", State: state}}, nil)
		if !there(blob) {
			t.Fatalf("answers that are %s are gone", state)
		}
	}
	site.DropAnswers(t.Context(), s, sends, []protocol.Delivery{{ID: "s1.a1", State: protocol.Acknowledged}}, nil)
	if there(blob) || !there(told) {
		t.Errorf("delivered answers are there: %v; their texts: %v", there(blob), there(told))
	}
	sends = due()
	if err := site.FillAnswers(t.Context(), s, "s1", sends); err != nil || sends[0].Answers["password"] != nil {
		t.Errorf("after they were delivered: %v (%v)", sends[0].Answers, err)
	}
	for session, hidden := range map[string]bool{"s1": true, "s2": false} {
		hide, err := site.HidingIn(t.Context(), s, protocol.Claim{Session: session, Told: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range []string{hide.All.String("it is " + secret), hide.Pump.String("it is " + secret)} {
			if strings.Contains(got, secret) == hidden {
				t.Errorf("session %s shows %q", session, got)
			}
		}
	}
	// A snapshot may still be made of what the session left on another host.
	for name, left := range map[string][]inquiry.LeftThere{
		"left behind": {{Session: "s1", Host: "away"}}, "held": {{Session: "s1", Host: "away", Held: true}}, "left here": {{Session: "s1", Host: protocol.LocalHost}},
	} {
		s.AskLeft = func(context.Context) ([]inquiry.LeftThere, error) { return left, nil }
		if site.ForgetAnswers(t.Context(), s, "s1", protocol.LocalHost); !there(told) {
			t.Fatalf("%s: what hides the text is gone", name)
		}
	}
	s.AskLeft = func(context.Context) ([]inquiry.LeftThere, error) { return nil, errors.New("no answer") }
	if site.ForgetAnswers(t.Context(), s, "s1", protocol.LocalHost); !there(told) {
		t.Fatal("nobody knows what is left, and what hides the text is gone")
	}
	s.AskLeft = func(context.Context) ([]inquiry.LeftThere, error) {
		return []inquiry.LeftThere{{Session: "s1", Host: protocol.LocalHost, Held: true}, {Session: "s2", Host: "away"}}, nil
	}
	if site.ForgetAnswers(t.Context(), s, "s1", protocol.LocalHost); there(told) {
		t.Error("after the session was closed the text is there")
	}
}

func TestAnswersThatNobodyWillHaveLeaveNothing(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost})
	s := b.set.site
	for _, void := range []bool{true, false} {
		blob, err := site.StoreAnswers(t.Context(), b.store, "s1", answerDigest, "", map[string][]string{"password": {"hunter2 and then some"}})
		if err != nil {
			t.Fatal(err)
		}
		sends := []conversation.Send{{ID: "s1.a1", Kind: conversation.SendDecision, AnswersBlob: blob}}
		if void { // the pump finds that codex no longer asks
			if err := site.FillAnswers(t.Context(), s, "s1", sends); err != nil {
				t.Fatal(err)
			}
			site.DropAnswers(t.Context(), s, sends, []protocol.Delivery{{ID: "s1.a1", State: protocol.Void}}, nil)
		} else { // the workflow finds out
			site.DropAnswers(t.Context(), s, nil, nil, []string{blob})
		}
		for _, prefix := range []string{site.AnswersPrefix, site.ToldPrefix} {
			if left, err := b.store.List(t.Context(), prefix); err != nil || len(left) > 0 {
				t.Errorf("void %v: left is %v (%v)", void, left, err)
			}
		}
	}
}

// Somebody who may signal a workflow must not be able to have other blobs of the store
// sent to codex.
func TestADecisionReadsNothingButAnswers(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost})
	if err := b.store.Put(t.Context(), "seeds/team/1", []byte(`{"a":["b"]}`)); err != nil {
		t.Fatal(err)
	}
	for _, blob := range []string{"seeds/team/1", "answers/s2/x", "answers/s1/../../seeds/team/1", "answers/s1/", "answers/s1/x/y"} {
		err := site.FillAnswers(t.Context(), b.set.site, "s1", []conversation.Send{{ID: "s1.a1", AnswersBlob: blob}})
		var typed *kit.TypedError
		if !errors.As(err, &typed) || typed.Kind != protocol.ErrTypeBadInput {
			t.Errorf("%s: %v", blob, err)
		}
	}
	if err := b.store.Put(t.Context(), "answers/s1/x", []byte(`no JSON, but a secret`)); err != nil {
		t.Fatal(err)
	}
	if err := site.FillAnswers(t.Context(), b.set.site, "s1", []conversation.Send{{ID: "s1.a1", AnswersBlob: "answers/s1/x"}}); err == nil || strings.Contains(err.Error(), "a secret") {
		t.Errorf("of a damaged blob: %v", err)
	}
}

func TestSecretAnswersFitTheQuestionsThatAreLeft(t *testing.T) {
	r := protocol.Request{Questions: []protocol.Question{{ID: "user"}, {ID: "password", Secret: true}}}
	if got, err := site.SecretAnswers(r, map[string][]string{"password": {"x"}}, []string{"user"}); err != nil || len(got) != 1 {
		t.Errorf("%v (%v)", got, err)
	}
	for name, bad := range map[string]struct {
		answers map[string][]string
		apart   []string
	}{
		"one is missing":     {map[string][]string{"password": {"x"}}, nil},
		"one is too many":    {map[string][]string{"password": {"x"}, "user": {"y"}}, []string{"user"}},
		"none is left":       {map[string][]string{"password": {"x"}}, []string{"user", "password"}},
		"there is no answer": {nil, []string{"user"}},
	} {
		if got, err := site.SecretAnswers(r, bad.answers, bad.apart); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
	if _, err := site.ReadRequest(t.Context(), newBed(t, protocol.HostSpec{Name: protocol.LocalHost}).store, "s1", answerDigest); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of a request that is not there: %v", err)
	}
}

func TestPruningLeavesSecretAnswersToSessionsThatRunOrDoNotAnswer(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost})
	s := b.set.site
	s.AskSession = func(_ context.Context, session string) (inquiry.SessionNow, error) {
		if session == "mute" {
			return inquiry.SessionNow{}, errors.New("it does not answer")
		}
		return inquiry.SessionNow{Runs: session == "runs"}, nil
	}
	open := []inquiry.LeftThere{{Session: "left", Host: "away"}}
	s.AskLeft = func(context.Context) ([]inquiry.LeftThere, error) { return open, nil }
	for _, session := range []string{"runs", "mute", "ended", "left"} {
		for _, prefix := range []string{site.AnswersPrefix, site.ToldPrefix} {
			if err := b.store.Put(t.Context(), prefix+session+"/x", []byte(`{}`)); err != nil {
				t.Fatal(err)
			}
		}
	}
	left := func() string {
		t.Helper()
		var keys []string
		for _, prefix := range []string{site.AnswersPrefix, site.ToldPrefix} {
			all, err := b.store.List(t.Context(), prefix)
			if err != nil {
				t.Fatal(err)
			}
			for _, info := range all {
				keys = append(keys, info.Key)
			}
		}
		return strings.Join(keys, " ")
	}
	before := left()
	for _, in := range []protocol.PruneSnapshotsInput{{DryRun: true}, {Session: "ended"}} {
		if err := site.PruneAnswers(t.Context(), s, in); err != nil || left() != before {
			t.Errorf("%+v left %s (%v)", in, left(), err)
		}
	}
	if err := site.PruneAnswers(t.Context(), s, protocol.PruneSnapshotsInput{}); err != nil || left() != "answers/mute/x answers/runs/x told/left/x told/mute/x told/runs/x" {
		t.Errorf("left is %s (%v)", left(), err)
	}
	open = nil // the request was decided
	now := s.Now()
	s.Deps.Now = func() time.Time { return now.Add(site.AnswersKept + time.Minute) }
	if err := site.PruneAnswers(t.Context(), s, protocol.PruneSnapshotsInput{}); err != nil || left() != "told/mute/x told/runs/x" {
		t.Errorf("much later left is %s (%v)", left(), err)
	}
}

// Two people who must approve the same secret answers, and may not see each other's,
// compare the names.
func TestTheSameSecretAnswersToAnApprovalHaveOneName(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost})
	names := map[string]bool{}
	stored := func(approval, password string) string {
		t.Helper()
		name, err := site.StoreAnswers(t.Context(), b.store, "s1", answerDigest, approval, map[string][]string{"password": {password}, "user": {"ann"}})
		if err != nil || !regexp.MustCompile(`^answers/s1/0123456789abcdef-[0-9a-f]{32}$`).MatchString(name) {
			t.Fatalf("stored as %q (%v)", name, err)
		}
		names[name] = true
		return name
	}
	first := stored("s1.a1", "hunter2")
	if err := b.store.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if again := stored("s1.a1", "hunter2"); again != first {
		t.Errorf("the same answers are %s and then %s", first, again)
	}
	if data, err := b.store.Get(t.Context(), first); err != nil || string(data) != `{"password":["hunter2"],"user":["ann"]}` {
		t.Errorf("%s (%v)", data, err)
	}
	stored("s1.a2", "hunter2") // for another approval, which may be delivered at another time
	stored("s1.a1", "hunter3")
	stored("", "hunter2")
	stored("", "hunter2")
	if len(names) != 5 {
		t.Errorf("they are named %v", names)
	}
}
