package activities

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// lostPump returns a session whose newest pump had recorded entries 4 and 5 when its
// host was lost: a note, and a message to codex.
func lostPump(t *testing.T) (*pumps.Activities, pumps.RecordLostInput) {
	t.Helper()
	s := New(site.Deps{Store: newStore(t), Live: &recorder{}}).Pump
	in := pumps.RecordLostInput{
		Claim: protocol.Claim{Session: "s", Generation: 1, Pump: 8}, Turn: 2,
		State: conversation.PumpState{Seq: 3, Cursor: protocol.Cursor{Incarnation: 1, Offset: 100}, AtMS: 1000},
		Sends: []conversation.Send{{ID: "m2", Kind: conversation.SendTurn, Text: "do it", Turn: 2}, {ID: "m3", Kind: conversation.SendSteer, Text: "and quickly", Turn: 2}},
		Notes: []conversation.Note{{ID: "w7"}, {ID: "w8"}},
	}
	tell := func(o records.Owner, entries ...protocol.Entry) {
		tr := &records.Transcript{Store: s.Site.Store, Session: "s", Owner: o, Now: time.Now, Stored: entries[0].Seq - 1}
		for _, e := range entries {
			if err := tr.Add(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		if err := tr.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	tell(records.Owner{Generation: 1, Pump: 6, Part: 0}, protocol.Entry{Seq: 1, ID: "a"}, protocol.Entry{Seq: 2, ID: "b"}, protocol.Entry{Seq: 3, ID: "c"})
	tell(records.Owner{Generation: 1, Pump: 7, Part: 0}, protocol.Entry{Seq: 4, ID: "w7", Type: "state"},
		protocol.Entry{Seq: 5, ID: "i1.120", Type: protocol.EntryUser, Text: "do it", Turn: 2, Data: map[string]string{"message": "m2"}})
	return s, in
}

func saidOf(t *testing.T, s *pumps.Activities) string {
	t.Helper()
	var out []string
	for _, e := range readAll(t, s.Site.Store, "s", 4) {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%d %s %s %s", e.Seq, e.Type, e.Text, e.Data["delivery"])))
	}
	return strings.Join(out, ", ")
}

// heardOf returns what the pump knew when its wire was lost.
func heardOf(in pumps.RecordLostInput, seq int64) conversation.Lost {
	return conversation.Lost{
		Result: conversation.PumpResult{
			State:      conversation.PumpState{Seq: seq, Cursor: protocol.Cursor{Incarnation: 1, Offset: 400}, TurnID: "turn-2", AtMS: 5000},
			Deliveries: []protocol.Delivery{{ID: "m2", State: protocol.Acknowledged}, {ID: "m3", State: protocol.Sent}},
		},
		Unfinished: []protocol.Entry{{ID: "i1.130-part", Type: protocol.EntryAssistant, Text: "I began to", Status: "interrupted", Turn: 2}},
	}
}

// The messages of a person and the answers of codex before the host was lost are
// recorded in this order, with the known delivery state of each message. Repeating
// RecordLost adds nothing.
func TestWhatWasHeardOnALostHostIsPutOnRecord(t *testing.T) {
	s, in := lostPump(t)
	pumps.KeepHeard(t.Context(), s.Site, pumps.RunPumpInput{Claim: protocol.Claim{Session: "s", Generation: 1, Pump: 7}, Pump: conversation.PumpInput{State: in.State}}, heardOf(in, 5), site.Secrets{})
	for range 3 {
		out, err := pumps.RecordLost(t.Context(), s.Site, in, site.Secrets{})
		if err != nil || out.Seq != 7 || fmt.Sprint(out.Said, out.Noted) != "[m2] [w7]" || out.Last == nil || out.Last.TurnID != "turn-2" {
			t.Errorf("recorded %+v, %v", out, err)
		}
		if got, want := saidOf(t, s), "4 state, 5 user do it, 6 user and quickly sent, 7 assistant I began to"; got != want {
			t.Errorf("on record is %q, want %q", got, want)
		}
	}
	if seq, err := site.Record(t.Context(), s.Site, "s", records.Owner{Generation: 2, Pump: 9, Part: 0}, 7, []conversation.Note{{ID: "w8", Text: "turn 2 ended"}}, nil); err != nil || seq != 8 {
		t.Errorf("then %d, %v", seq, err)
	}
	if got := saidOf(t, s); !strings.HasSuffix(got, "7 assistant I began to, 8  turn 2 ended") {
		t.Errorf("on record is %q", got)
	}
}

// If the worker died together with its host, only its entries are left. Messages that
// it may have sent are recorded with the delivery state sent.
func TestWhatADeadWorkerHeardIsItsEntries(t *testing.T) {
	for what, lost := range map[string]func(*pumps.Heard){
		"nothing is left":           nil,
		"it is of a former process": func(h *pumps.Heard) { h.Lost.Result.State.Cursor.Incarnation = 0 },
		"it is of another host":     func(h *pumps.Heard) { h.Generation = 0 },
		"it was told since":         func(h *pumps.Heard) { h.Since = 2 },
		"it is older than that":     func(h *pumps.Heard) { h.Lost.Result.State.Cursor.Offset = 50 },
	} {
		s, in := lostPump(t)
		if lost != nil {
			h := pumps.Heard{Generation: 1, Pump: 7, Since: 3, Lost: heardOf(in, 5)}
			lost(&h)
			pump := pumps.RunPumpInput{Claim: protocol.Claim{Session: "s", Generation: h.Generation, Pump: 7}, Pump: conversation.PumpInput{State: conversation.PumpState{Seq: h.Since}}}
			pumps.KeepHeard(t.Context(), s.Site, pump, h.Lost, site.Secrets{})
		}
		in.Sends = append(in.Sends, conversation.Send{ID: "m4", Kind: conversation.SendDecision})
		out, err := pumps.RecordLost(t.Context(), s.Site, in, site.Secrets{})
		if err != nil || out.Seq != 6 || fmt.Sprint(out.Said, out.Noted) != "[m2] [w7]" || out.Last != nil || out.Ended != nil {
			t.Errorf("%s: recorded %+v, %v", what, out, err)
		}
		if got, want := saidOf(t, s), "4 state, 5 user do it, 6 user and quickly sent"; got != want {
			t.Errorf("%s: on record is %q, want %q", what, got, want)
		}
	}
}

// The pump had read the end of the turn too, but could not report it any more.
func TestTheEndOfATurnIsHeardOnALostHost(t *testing.T) {
	s, in := lostPump(t)
	h := heardOf(in, 5)
	h.Result.Turn, h.Unfinished = &conversation.TurnEnd{N: 2, ID: "turn-2", Status: "completed", FinalText: "all is done"}, nil
	pumps.KeepHeard(t.Context(), s.Site, pumps.RunPumpInput{Claim: protocol.Claim{Session: "s", Generation: 1, Pump: 7}, Pump: conversation.PumpInput{State: in.State}}, h, site.Secrets{})
	for range 2 {
		out, err := pumps.RecordLost(t.Context(), s.Site, in, site.Secrets{})
		if err != nil || out.Ended == nil || out.Ended.FinalText != "all is done" || fmt.Sprint(out.Said) != "[m2]" {
			t.Errorf("recorded %+v, %v", out, err)
		}
	}
}

// An attempt that read less does not replace the record of one that read more. Entries
// that other attempts have stored since come before the unfinished texts of this
// attempt.
func TestTheNewestOfWhatWasHeardCounts(t *testing.T) {
	s, in := lostPump(t)
	pump := pumps.RunPumpInput{Claim: protocol.Claim{Session: "s", Generation: 1, Pump: 7}, Pump: conversation.PumpInput{State: in.State}}
	pumps.KeepHeard(t.Context(), s.Site, pump, heardOf(in, 4), site.Secrets{})
	short := heardOf(in, 4)
	short.Result.State.Cursor.Offset, short.Result.State.TurnID = 200, ""
	pumps.KeepHeard(t.Context(), s.Site, pump, short, site.Secrets{})
	out, err := pumps.RecordLost(t.Context(), s.Site, in, site.Secrets{})
	if err != nil || out.Seq != 6 || out.Last == nil || out.Last.TurnID != "turn-2" {
		t.Errorf("recorded %+v, %v", out, err)
	}
	if got, want := saidOf(t, s), "4 state, 5 user do it, 6 user and quickly sent"; got != want {
		t.Errorf("on record is %q, want %q", got, want)
	}
}

// The record is deleted after the session has gone to another host or has ended, so
// that a later session of its id does not find it. A record of the session's present
// generation stays.
func TestWhatWasHeardDoesNotOutliveItsUse(t *testing.T) {
	b := newBed(t, readyHost(t))
	hears := func(generation int64) {
		pumps.KeepHeard(t.Context(), b.set.Pump.Site, pumps.RunPumpInput{Claim: protocol.Claim{Session: "ears", Generation: generation, Pump: 1}}, conversation.Lost{}, site.Secrets{})
	}
	is := func(when string, want bool) {
		t.Helper()
		if h, err := pumps.ReadHeard(t.Context(), b.set.site, "ears"); err != nil || (h != nil) != want {
			t.Errorf("%s there is %+v, %v", when, h, err)
		}
	}
	hears(0)
	k := b.prepared("ears", "", "danger-full-access", b.plantable(scriptedmodel.Serve(t, `rules: []`)))
	is("once it has come up", false)

	hears(1)
	if _, err := b.prepare(places.PrepareSessionInput{Claim: k.next(), Seed: k.seed, Sandbox: "danger-full-access"}); err != nil {
		t.Fatal(err)
	}
	is("when it is prepared again", true)
	if out, err := k.close(k.closing(conversation.Note{ID: "closed", Type: "state", Text: "closed"})); err != nil || !out.Removed {
		t.Fatalf("closed %+v, %v", out, err)
	}
	is("once it is closed", false)

	hears(1)
	if _, err := pumps.RecordNotes(t.Context(), b.set.Pump.Site, pumps.RecordNotesInput{Session: "ears", Seq: 1, Notes: []conversation.Note{{ID: "gone", Text: "given up"}}}); err != nil {
		t.Fatal(err)
	}
	is("once it has ended without its host", false)

	hears(9) // a later session of its id
	if _, err := pumps.RecordNotes(t.Context(), b.set.Pump.Site, pumps.RecordNotesInput{Session: "ears", Seq: 2, Notes: []conversation.Note{{ID: "late", Text: "once more"}}}); err != nil {
		t.Fatal(err)
	}
	is("after that", true)
}
