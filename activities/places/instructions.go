package places

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// instructions collects the instructions of the organisation, the seed and the session.
func instructions(ctx context.Context, s *site.Site, in PrepareSessionInput, bundle *seeds.Bundle) (protocol.Instructions, error) {
	out := protocol.Instructions{Session: in.Claim.Session, At: s.Now().UTC(), Host: in.Claim.Host.Name, Parts: []protocol.InstructionPart{}}
	add := func(of, name, text string) {
		if strings.TrimSpace(text) != "" {
			out.Parts = append(out.Parts, protocol.InstructionPart{Of: of, Name: name, Text: text})
		}
	}
	ours, err := ofOrganisation(s.Instructions)
	if err != nil {
		return out, err
	}
	add(protocol.OfOrganisation, "", ours)
	file, seeds := bundle.Agents()
	if in.Seed != nil {
		add(protocol.OfSeed, in.Seed.Name, string(seeds))
	}
	own, err := site.ReadGiven(ctx, s, in.Agents, "the instructions of the session")
	if err != nil {
		return out, err
	}
	add(protocol.OfSession, "", own)
	if out.Base, err = site.ReadGiven(ctx, s, in.Base, "the base instructions of the session"); err != nil {
		return out, err
	}
	if len(out.Parts) == 0 {
		return out, nil
	}
	out.File, out.Text = file, compose(out.Parts)
	if n := len(out.Text); n > protocol.MaxAgentsFile && (ours != "" || own != "") {
		return out, &kit.TypedError{Kind: protocol.ErrTypeBadInput, Hint: "shorten AGENTS.md of the seed, or the instructions of the session",
			Err: fmt.Errorf("the instructions of organisation, seed and session have %d bytes together, at most %d", n, protocol.MaxAgentsFile)}
	}
	return out, nil
}

// compose joins the parts, each below a line that says whose it is. A single part of a seed
// stays as it is.
func compose(parts []protocol.InstructionPart) string {
	if len(parts) == 1 && parts[0].Of == protocol.OfSeed {
		return parts[0].Text
	}
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteString("\n")
		}
		whose := p.Of
		if p.Name != "" {
			whose += " " + p.Name
		}
		fmt.Fprintf(&b, "<!-- instructions of the %s -->\n%s\n", whose, strings.TrimRight(p.Text, "\n"))
	}
	return b.String()
}

// planted returns the content of the file for codex; nil leaves the seed's as it is.
func planted(in protocol.Instructions) []byte {
	if len(in.Parts) == 0 || len(in.Parts) == 1 && in.Parts[0].Of == protocol.OfSeed {
		return nil
	}
	return []byte(in.Text)
}

// keepInstructions stores them for people, without secrets.
func keepInstructions(ctx context.Context, s *site.Site, in protocol.Instructions, hide site.Secrets) error {
	if len(in.Parts) == 0 && in.Base == "" {
		return nil
	}
	kit.HideIn(hide.All, &in)
	return records.KeepInstructions(ctx, s.Store, in)
}

// ofOrganisation reads the file that the worker's config names. A worker that cannot read
// it prepares no host.
func ofOrganisation(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	text, err := readInstructions(name)
	if err != nil {
		return "", &kit.TypedError{Kind: protocol.ErrTypeInternal, Retry: true, Hint: "mend the file that instructions of the worker's config names",
			Err: fmt.Errorf("read the instructions of the organisation: %w", err)}
	}
	return text, nil
}

func readInstructions(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, protocol.MaxGiven+1))
	switch {
	case err != nil:
		return "", err
	case len(data) > protocol.MaxGiven:
		return "", fmt.Errorf("%s has more than %d bytes", name, protocol.MaxGiven)
	case !utf8.Valid(data):
		return "", errors.New(name + " is not text in UTF-8")
	}
	return string(data), nil
}
