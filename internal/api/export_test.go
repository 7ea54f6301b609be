package api

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

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
	ask := ExportSeed{Blob: stored.Ref.Blob, Digest: stored.Ref.Digest, Recipient: mine.Recipient().String(), By: "ann"}
	data, err := c.ExportSeed(t.Context(), "team", ask)
	if err != nil || bytes.Contains(data, []byte(secret)) {
		t.Fatalf("%d bytes, %v", len(data), err)
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
	if data, err := plain.client("").ExportSeed(t.Context(), "team", ask); !errors.As(err, &refused) || refused.Kind != ErrRefused || len(data) > 0 {
		t.Errorf("over plain HTTP: %d bytes, %v", len(data), err)
	}
	for name, change := range map[string]func(*ExportSeed){
		"no recipient":          func(e *ExportSeed) { e.Recipient = "" },
		"an identity":           func(e *ExportSeed) { e.Recipient = mine.String() },
		"two recipients":        func(e *ExportSeed) { e.Recipient += "\n" + other.Recipient().String() },
		"another seed's":        func(e *ExportSeed) { e.Blob = "seeds/other/0000000001-aa" },
		"no seed's":             func(e *ExportSeed) { e.Blob = "transcripts/s1/1" },
		"climbing":              func(e *ExportSeed) { e.Blob = "seeds/team/../other/1" },
		"of another generation": func(e *ExportSeed) { e.Digest = strings.Repeat("0", 64) },
	} {
		bad := ask
		change(&bad)
		var e *Error
		data, err := c.ExportSeed(t.Context(), "team", bad)
		if !errors.As(err, &e) || len(data) > 0 || strings.Contains(err.Error(), "SECRET-KEY") {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
		}
	}
}

func ageIdentity(t *testing.T) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}
