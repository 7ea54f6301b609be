package places

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// seedWith returns a seed with these files.
func seedWith(t *testing.T, files map[string]string) *seeds.Bundle {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := seeds.Pack(dir)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestInstructionsAreThoseOfOrganisationSeedAndSessionInThisOrder(t *testing.T) {
	ours := filepath.Join(t.TempDir(), "ours.md")
	if err := os.WriteFile(ours, []byte("Write no secrets.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &site.Site{Deps: site.Deps{Now: time.Now, Logger: slog.New(slog.DiscardHandler)}}
	auth := map[string]string{"auth.json": `{"OPENAI_API_KEY":"sk-0123456789abcdef"}`}
	with := func(more ...string) *seeds.Bundle {
		files := map[string]string{"auth.json": auth["auth.json"]}
		for i := 0; i < len(more); i += 2 {
			files[more[i]] = more[i+1]
		}
		return seedWith(t, files)
	}
	const org, seed, own = "<!-- instructions of the organisation -->\nWrite no secrets.\n", "<!-- instructions of the seed team -->\nUse make.\n", "<!-- instructions of the session -->\nBe brief.\n"
	for name, c := range map[string]struct {
		ours, own  string
		bundle     *seeds.Bundle
		file, text string
		plants     bool
	}{
		"nothing":           {bundle: with()},
		"no seed":           {own: "Be brief.", file: "AGENTS.md", text: own, plants: true},
		"all":               {ours: ours, own: "Be brief.", bundle: with("AGENTS.md", "Use make.\n"), file: "AGENTS.md", text: org + "\n" + seed + "\n" + own, plants: true},
		"the seed's alone":  {bundle: with("AGENTS.md", "Use make.\n\n"), file: "AGENTS.md", text: "Use make.\n\n"},
		"the organisation":  {ours: ours, bundle: with("AGENTS.md", " \n"), file: "AGENTS.md", text: org, plants: true},
		"the override":      {own: "Be brief.", bundle: with("AGENTS.md", "Use bazel.", "AGENTS.override.md", "Use make."), file: "AGENTS.override.md", text: seed + "\n" + own, plants: true},
		"an empty override": {own: "Be brief.", bundle: with("AGENTS.md", "Use make.", "AGENTS.override.md", "\n"), file: "AGENTS.md", text: seed + "\n" + own, plants: true},
	} {
		s.Instructions = c.ours
		in := PrepareSessionInput{Agents: protocol.Give(c.own)}
		if c.bundle != nil {
			in.Seed = &protocol.SeedRef{Name: "team"}
		}
		got, err := instructions(context.Background(), s, in, c.bundle)
		if err != nil || got.File != c.file || got.Text != c.text {
			t.Errorf("%s: %s is %q, %v, want %s %q", name, got.File, got.Text, err, c.file, c.text)
		}
		want := []byte(nil)
		if c.plants {
			want = []byte(c.text)
		}
		if !bytes.Equal(planted(got), want) {
			t.Errorf("%s: planted is %q", name, planted(got))
		}
	}
}

func TestInstructionsThatCannotBeGivenStopThePreparation(t *testing.T) {
	s := &site.Site{Deps: site.Deps{Now: time.Now, Logger: slog.New(slog.DiscardHandler)}}
	forged := protocol.Give("Be brief.")
	forged.Text = "Be rude.."
	long := seedWith(t, map[string]string{"auth.json": `{"OPENAI_API_KEY":"sk-0123456789abcdef"}`, "AGENTS.md": strings.Repeat("long ", protocol.MaxAgentsFile/5)})
	for name, c := range map[string]struct {
		file   string
		in     PrepareSessionInput
		bundle *seeds.Bundle
		kind   string
		retry  bool
	}{
		"a missing file":   {file: filepath.Join(t.TempDir(), "none"), kind: protocol.ErrTypeInternal, retry: true},
		"another text":     {in: PrepareSessionInput{Agents: forged}, kind: protocol.ErrTypeBadInput},
		"too long in all":  {in: PrepareSessionInput{Agents: protocol.Give("Be brief."), Seed: &protocol.SeedRef{Name: "team"}}, bundle: long, kind: protocol.ErrTypeBadInput},
		"a blob of others": {in: PrepareSessionInput{Base: &protocol.GivenText{Blob: "seeds/team/1", Digest: strings.Repeat("0", 64), Bytes: 3}}, kind: protocol.ErrTypeBadInput},
	} {
		s.Instructions = c.file
		_, err := instructions(context.Background(), s, c.in, c.bundle)
		var typed *kit.TypedError
		if !errors.As(err, &typed) || typed.Kind != c.kind || typed.Retry != c.retry {
			t.Errorf("%s: %v", name, err)
		}
	}
}
