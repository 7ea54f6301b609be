package batches

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/snapshots/chunks"
)

func TestAStartBeginsOnlyWithWhatItsPrincipalMayRead(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), store.Options{URL: "file://" + t.TempDir(), Recipients: []age.Recipient{id.Recipient()}, Identities: []age.Identity{id}})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	made := func(session, by string) string {
		m, err := snapshots.Make(t.Context(), chunks.Open(st, chunks.Options{}), session, by, time.Now(), nil, func() ([]byte, error) { return nil, nil })
		if err != nil {
			t.Fatal(err)
		}
		return m.ID
	}
	s := &site.Site{Deps: site.Deps{Store: st, MayRead: func(_ context.Context, who string, groups []string, of owned.Owner, blind bool) (string, error) {
		switch got := fmt.Sprint(who, groups, " ", of, " ", blind); got {
		case "ann[ops] session.hers false", "ann[ops] batch.b1 false":
			return "", nil
		case "ann[ops] session.away false":
			return "", errors.New("no worker answers")
		default:
			return "no binding allows it: " + got, nil
		}
	}}}
	hers, his, again, sent, others := made("hers", ""), made("his", ""), made("new", ""), made("upload-1", "ann"), made("new", "bob")
	for what, c := range map[string]struct {
		snapshot string
		owners   []string
		refused  string
	}{
		"a session that she may read":     {hers, nil, ""},
		"one that she may not":            {his, nil, "session his"},
		"an earlier one of the same name": {again, nil, "new true"},
		"a tree that she sent":            {sent, nil, ""},
		"a tree that somebody else sent":  {others, nil, "new true"},
		"files that she may read":         {hers, []string{"session.hers", "batch.b1"}, ""},
		"files that she may not":          {hers, []string{"session.hers", "batch.b2"}, "batch b2"},
	} {
		out, err := mayRead(t.Context(), s, protocol.StartReads{Principal: "ann", Groups: []string{"ops"}, Session: "new", Snapshot: c.snapshot, Owners: c.owners})
		if err != nil || (out.Refused == "") != (c.refused == "") || !strings.Contains(out.Refused, c.refused) {
			t.Errorf("%s: %q, %v; want %q", what, out.Refused, err, c.refused)
		}
	}
	// What cannot be found out now is asked again.
	if out, err := mayRead(t.Context(), s, protocol.StartReads{Principal: "ann", Groups: []string{"ops"}, Session: "new", Snapshot: made("away", "")}); err == nil {
		t.Errorf("a session that does not answer: %+v", out)
	}
	s.MayRead = nil
	if out, err := mayRead(t.Context(), s, protocol.StartReads{Principal: "ann", Session: "new", Snapshot: sent}); err == nil {
		t.Errorf("a worker without an access file: %+v", out)
	}
}
