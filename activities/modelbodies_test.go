package activities

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/store"
)

func TestBodiesOfASessionAreKeptForATimeAndWithinABound(t *testing.T) {
	ctx, st, now := t.Context(), newStore(t), time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC)
	keep := func(session, text string, at time.Time, most int64) error {
		return records.KeepModelBody(ctx, st, session, records.ModelBody{At: at, Until: at.Add(time.Hour), Path: "/v1/responses", Status: 200, Kind: "completed",
			Request: records.BodyText{Text: text, Bytes: int64(len(text))}}, most)
	}
	list := func(session string, at time.Time) []records.KeptBody {
		t.Helper()
		all, err := records.ListModelBodies(ctx, st, session, at)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	for n := range 3 {
		if err := keep("s1", "hello", now.Add(time.Duration(n)*time.Minute), 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	if err := keep("s1-b", "other", now, 1<<20); err != nil {
		t.Fatal(err)
	}
	all := list("s1", now)
	if len(all) != 3 || !all[0].At.Equal(now) || !all[0].Until.Equal(now.Add(time.Hour)) || all[0].Bytes == 0 {
		t.Fatalf("kept %+v", all)
	}
	b, err := records.ReadModelBody(ctx, st, "s1", all[1].ID, now)
	if err != nil || b.Request.Text != "hello" || b.ID != all[1].ID || !b.At.Equal(now.Add(time.Minute)) {
		t.Errorf("read %+v, %v", b, err)
	}

	// Nobody reads what is not the session's, or whose time is over.
	for session, id := range map[string]string{"s1-b": all[1].ID, "s1": "../s1-b/" + list("s1-b", now)[0].ID, "s2": "x"} {
		if _, err := records.ReadModelBody(ctx, st, session, id, now); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s of %s: %v", id, session, err)
		}
	}
	late := now.Add(time.Hour)
	if got := list("s1", late); len(got) != 2 {
		t.Errorf("an hour later %+v are kept", got)
	}
	if _, err := records.ReadModelBody(ctx, st, "s1", all[0].ID, late); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an hour later: %v", err)
	}
	if n, err := records.DropModelBodies(ctx, st, late); n != 2 || err != nil {
		t.Errorf("%d are deleted, %v", n, err)
	}
	if got := list("s1", now); len(got) != 2 {
		t.Errorf("%+v are left", got)
	}

	// The oldest makes room; what is too large for all of the room is not kept.
	var b26 strings.Builder
	for range 120 {
		b26.WriteString(rand.Text()) // the store compresses
	}
	long := b26.String()
	for n := range 4 {
		if err := keep("s3", long, now.Add(time.Duration(n)*time.Minute), 9000); err != nil {
			t.Fatal(err)
		}
	}
	sum, got := int64(0), list("s3", now)
	for _, b := range got {
		sum += b.Bytes
	}
	if len(got) == 0 || len(got) == 4 || sum > 9000 || !got[len(got)-1].At.Equal(now.Add(3*time.Minute)) {
		t.Errorf("within the bound are %+v", got)
	}
	if err := keep("s4", long, now, 1000); err == nil || len(list("s4", now)) != 0 {
		t.Errorf("a body beyond the bound: %v", err)
	}
}
