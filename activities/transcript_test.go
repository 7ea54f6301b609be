package activities

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

func writer(st *store.Store, o records.Owner, stored int64) *records.Transcript {
	return &records.Transcript{Store: st, Session: "s1", Owner: o, Now: time.Now, Stored: stored}
}

// write adds the entries from from to to (inclusive) and flushes after each of
// cuts.
func write(t *testing.T, tr *records.Transcript, from, to int64, id string, cuts ...int64) {
	t.Helper()
	for seq := from; seq <= to; seq++ {
		if err := tr.Add(t.Context(), protocol.Entry{Seq: seq, ID: fmt.Sprintf("%s%d", id, seq), Text: "x"}); err != nil {
			t.Fatal(err)
		}
		if slices.Contains(cuts, seq) {
			if err := tr.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestTranscriptIsTheSameWhoeverCutsItWhere(t *testing.T) {
	// These are attempts of one pump that die at different points, overlap, and flush
	// at different entries.
	for name, attempts := range map[string]func(t *testing.T, st *store.Store){
		"one after the other": func(t *testing.T, st *store.Store) {
			write(t, writer(st, records.Owner{Generation: 1, Pump: 1, Part: 0}, 0), 1, 5, "e", 3, 5)
			write(t, writer(st, records.Owner{Generation: 1, Pump: 1, Part: 0}, 0), 1, 9, "e", 4, 9)
		},
		"the second stores less at first": func(t *testing.T, st *store.Store) {
			write(t, writer(st, records.Owner{Generation: 1, Pump: 1, Part: 0}, 0), 1, 8, "e", 8)
			write(t, writer(st, records.Owner{Generation: 1, Pump: 1, Part: 0}, 0), 1, 9, "e", 2, 5, 9)
		},
		"side by side": func(t *testing.T, st *store.Store) {
			a, b := writer(st, records.Owner{Generation: 1, Pump: 1, Part: 0}, 0), writer(st, records.Owner{Generation: 1, Pump: 1, Part: 0}, 0)
			write(t, a, 1, 2, "e", 2)
			write(t, b, 1, 4, "e", 3)
			write(t, a, 3, 7, "e", 5, 7)
			write(t, b, 5, 9, "e", 6, 9)
		},
	} {
		t.Run(name, func(t *testing.T) {
			st := newStore(t)
			attempts(t, st)
			want := "1:e1 2:e2 3:e3 4:e4 5:e5 6:e6 7:e7 8:e8 9:e9 "
			if got := seqs(readAll(t, st, "s1", 1)); got != want {
				t.Errorf("read %s, want %s", got, want)
			}
			for from := int64(1); from <= 10; from++ {
				got := readAll(t, st, "s1", from)
				if len(got) != int(10-from) || len(got) > 0 && got[0].Seq != from {
					t.Errorf("from %d: %s", from, seqs(got))
				}
			}
		})
	}
}

func TestTranscriptOfAGivenUpPumpIsVoid(t *testing.T) {
	st := newStore(t)
	write(t, writer(st, records.Owner{Generation: 1, Pump: 1, Part: 0}, 0), 1, 3, "a", 3)
	write(t, writer(st, records.Owner{Generation: 1, Pump: 2, Part: 0}, 3), 4, 9, "dead", 6, 9) // never reported
	write(t, writer(st, records.Owner{Generation: 1, Pump: 3, Part: 0}, 3), 4, 5, "b", 5)
	if got, want := seqs(readAll(t, st, "s1", 1)), "1:a1 2:a2 3:a3 4:b4 5:b5 "; got != want {
		t.Errorf("read %s, want %s", got, want)
	}
	if got, want := seqs(readAll(t, st, "s1", 5)), "5:b5 "; got != want {
		t.Errorf("read %s, want %s", got, want)
	}
}

func TestTranscriptGapIsTold(t *testing.T) {
	st := newStore(t)
	write(t, writer(st, records.Owner{Generation: 1, Pump: 1, Part: 0}, 0), 1, 3, "a", 3)
	write(t, writer(st, records.Owner{Generation: 1, Pump: 2, Part: 0}, 5), 6, 7, "b", 7)
	var got []protocol.Entry
	var gap *records.GapError
	for e, err := range records.ReadTranscript(t.Context(), st, "s1", 1) {
		if err != nil {
			if !errors.As(err, &gap) {
				t.Fatal(err)
			}
			break
		}
		got = append(got, e)
	}
	if gap == nil || gap.From != 4 || gap.To != 5 || seqs(got) != "1:a1 2:a2 3:a3 " {
		t.Errorf("gap %v after %s", gap, seqs(got))
	}
}

func TestTranscriptSegmentIsCutBySize(t *testing.T) {
	st := newStore(t)
	tr := writer(st, records.Owner{Generation: 1, Pump: 1, Part: 0}, 0)
	for seq := int64(1); seq <= 4; seq++ {
		if err := tr.Add(t.Context(), protocol.Entry{Seq: seq, ID: "e", Text: strings.Repeat("x", records.SegmentBytes)}); err != nil {
			t.Fatal(err)
		}
	}
	if got := readAll(t, st, "s1", 1); len(got) != 4 {
		t.Errorf("%d entries are in the store before a flush, want 4", len(got))
	}
}

func TestTranscriptRefusesAHole(t *testing.T) {
	tr := writer(newStore(t), records.Owner{Generation: 1, Pump: 1, Part: 0}, 0)
	if err := tr.Add(t.Context(), protocol.Entry{Seq: 1}); err != nil {
		t.Fatal(err)
	}
	if err := tr.Add(t.Context(), protocol.Entry{Seq: 3}); err == nil {
		t.Error("entry 3 was taken after entry 1")
	}
}

func TestTranscriptDifferenceBetweenAttemptsIsNoticed(t *testing.T) {
	st := newStore(t)
	write(t, writer(st, records.Owner{Generation: 1, Pump: 1, Part: 0}, 0), 1, 2, "a", 2)
	tr := writer(st, records.Owner{Generation: 1, Pump: 1, Part: 0}, 0)
	write(t, tr, 1, 2, "b", 2)
	if tr.Strange == "" {
		t.Error("other entries under the same numbers were not noticed")
	}
}

func TestNotesRecordedTwiceAreThereOnce(t *testing.T) {
	st := newStore(t)
	live := &recorder{}
	s := New(site.Deps{Store: st, Live: live}).Pump
	write(t, writer(st, records.Owner{Generation: 2, Pump: 7, Part: 0}, 0), 1, 3, "e", 3)
	in := pumps.RecordNotesInput{Session: "s1", Seq: 3, Notes: []conversation.Note{{ID: "n1", Type: "state", Text: "closed"}, {ID: "n2", Type: "state"}}}
	for range 2 {
		seq, err := pumps.RecordNotes(t.Context(), s.Site, in)
		if err != nil || seq != 5 {
			t.Fatalf("seq %d, %v", seq, err)
		}
	}
	if got, want := seqs(readAll(t, st, "s1", 1)), "1:e1 2:e2 3:e3 4:n1 5:n2 "; got != want {
		t.Errorf("read %s, want %s", got, want)
	}
	if n := len(live.of(records.SessionTopic("s1"), records.LiveEntry)); n != 4 {
		t.Errorf("%d entries were shown, want each of the two by both attempts", n)
	}
}
