package api

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

func TestASeedLeavesOnlyEncryptedForTheKeyThatWasNamed(t *testing.T) {
	b := serve(t, nil)
	c := b.client("")
	const secret = "sk-marked-7d21"
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "auth.json"), []byte(`{"OPENAI_API_KEY":"`+secret+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	bundle, err := seeds.Pack(dir)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := c.PutSeed(t.Context(), "team", bundle.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	mine, other := ageIdentity(t), ageIdentity(t)
	ask := ExportSeed{Recipient: mine.Recipient().String(), By: "ann"}
	held := seedRef(stored)
	b.desk.set(protocol.SeedView{Kind: "api-key", Generation: 3, Ref: held}, nil)
	got, err := c.ExportSeed(t.Context(), "team", ask)
	data := got.Data
	if err != nil || bytes.Contains(data, []byte(secret)) || got.Kind != "api-key" || got.Generation != 3 {
		t.Fatalf("%d bytes of %s, generation %d, %v", len(data), got.Kind, got.Generation, err)
	}
	if who := b.desk.who(); len(who) != 1 || who[0] != (protocol.ExportSeed{By: "ann", Recipient: ask.Recipient}) {
		t.Errorf("the seed was asked by %+v", who)
	}
	back, err := seeds.OpenExport(bytes.NewReader(data), mine)
	if err != nil || back.Manifest().Digest() != bundle.Manifest().Digest() || !bytes.Contains(back.File("auth.json"), []byte(secret)) {
		t.Errorf("came back as %v, %v", back, err)
	}
	if _, err := seeds.OpenExport(bytes.NewReader(data), other); err == nil || !strings.Contains(err.Error(), "another key") {
		t.Errorf("opened by another key: %v", err)
	}
	for _, n := range []int{0, len(data) / 2, len(data) - 1} {
		if _, err := seeds.OpenExport(bytes.NewReader(data[:n]), mine); err == nil {
			t.Errorf("cut to %d bytes it is taken", n)
		}
	}
	plain := serve(t, func(o *Options) { o.Listen = "127.0.0.1:0" })
	var refused *Error
	if got, err := plain.client("").ExportSeed(t.Context(), "team", ask); !errors.As(err, &refused) || refused.Kind != ErrRefused || len(got.Data) > 0 {
		t.Errorf("over plain HTTP: %d bytes, %v", len(got.Data), err)
	}
	for name, change := range map[string]func(*ExportSeed){
		"no recipient":          func(e *ExportSeed) { e.Recipient = "" },
		"an identity":           func(e *ExportSeed) { e.Recipient = mine.String() },
		"two recipients":        func(e *ExportSeed) { e.Recipient += "\n" + other.Recipient().String() },
		"nobody's":              func(e *ExportSeed) { e.By = "" },
		"of another generation": func(e *ExportSeed) { e.Digest = strings.Repeat("0", 64) },
	} {
		bad := ask
		change(&bad)
		var e *Error
		b.desk.set(b.desk.view, nil)
		got, err := c.ExportSeed(t.Context(), "team", bad)
		if !errors.As(err, &e) || len(got.Data) > 0 || strings.Contains(err.Error(), "SECRET-KEY") {
			t.Errorf("%s: %d bytes, %v", name, len(got.Data), err)
		}
		if asked := len(b.desk.who()) > 0; asked != (bad.Digest != "") {
			t.Errorf("%s: the seed was asked: %v", name, asked)
		}
	}
}

// Whoever has the bearer token gets no seed that its workflow does not permit.
func TestASeedLeavesOnlyWithItsPermission(t *testing.T) {
	b := serve(t, nil)
	c := b.client("")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "auth.json"), []byte(`{"OPENAI_API_KEY":"sk-marked-7d22"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	bundle, err := seeds.Pack(dir)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := c.PutSeed(t.Context(), "team", bundle.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	ref := *seedRef(stored)
	foreign := ref
	foreign.Blob = "seeds/other/" + filepath.Base(ref.Blob)
	climbing := ref
	climbing.Blob = "seeds/team/../../transcripts/s1/1"
	for name, says := range map[string]struct {
		view protocol.SeedView
		err  error
		kind string
	}{
		"a held seed":              {err: problem(http.StatusConflict, ErrRefused, "seed team is held by s1"), kind: ErrRefused},
		"a refusal with a view":    {protocol.SeedView{Ref: &ref}, problem(http.StatusConflict, ErrRefused, "no"), ErrRefused},
		"no answer":                {err: errors.New("Temporal is away"), kind: ErrInternal},
		"no generation":            {kind: ErrNotFound},
		"another seed's":           {view: protocol.SeedView{Ref: &foreign}, kind: ErrNotFound},
		"a blob of something else": {view: protocol.SeedView{Ref: &climbing}, kind: ErrStore},
	} {
		b.desk.set(says.view, says.err)
		ask := ExportSeed{Recipient: ageIdentity(t).Recipient().String(), By: "ann"}
		var e *Error
		got, err := c.ExportSeed(t.Context(), "team", ask)
		if !errors.As(err, &e) || e.Kind != says.kind || len(got.Data) > 0 {
			t.Errorf("%s: %d bytes, %v", name, len(got.Data), err)
		}
		if len(b.desk.who()) != 1 {
			t.Errorf("%s: the seed was asked by %+v", name, b.desk.who())
		}
	}
	mute := serve(t, func(o *Options) { o.Seeds = nil })
	if got, err := mute.client("").ExportSeed(t.Context(), "team", ExportSeed{Recipient: ageIdentity(t).Recipient().String(), By: "ann"}); err == nil {
		t.Errorf("a worker that cannot ask hands out %d bytes", len(got.Data))
	}
}

func seedRef(stored StoredSeed) *protocol.SeedRef {
	return &protocol.SeedRef{Blob: stored.Ref.Blob, Digest: stored.Ref.Digest}
}

func ageIdentity(t *testing.T) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}
