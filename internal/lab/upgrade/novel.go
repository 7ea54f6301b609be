package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// What only N+1 knows: rules of a seed for follow-ups, which a session keeps in its state. They
// must outlast workers of N.
const (
	novel     = "novel" // the session, and its seed
	reviewing = "review what was done"
)

// novels are the workflows that N leaves to N+1.
var novels = []string{protocol.SessionID(novel), protocol.SeedID(novel)}

// beginNovel starts a session with such rules, under N+1 alone.
func (p *play) beginNovel(ctx context.Context) error {
	home := filepath.Join(p.lab.Dir, "novel")
	settings := filepath.Join(p.lab.Dir, "settings.yaml")
	err := os.MkdirAll(home, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(home, "config.toml"), []byte(scriptedmodel.ConfigTOML(p.lab.Model.BaseURL(), p.lab.Token)), 0o600)
	}
	if err == nil {
		err = os.WriteFile(settings, []byte("follow_ups:\n  - {name: review, after: {turns: 2}, prompt: "+reviewing+"}\n"), 0o600)
	}
	if err != nil {
		return err
	}
	if err := p.ctl(ctx, "seed", "import", novel, home, "--settings", settings); err != nil {
		return err
	}
	if err := p.start(ctx, novel, "--host", "web-1", "--seed", novel); err != nil {
		return err
	}
	return p.turn(ctx, novel, "hello from what N does not know")
}

const missed = "hello while no worker knows this session"

// missNovel sends a message to the session under N alone. N must say that it leaves the session
// to newer workers.
func (p *play) missNovel(ctx context.Context) error {
	p.say(novel, missed)
	c, err := p.lab.Temporal(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, id := range novels {
		// A task of the workflow that N must leave, as a message would be.
		if err := c.SignalWorkflow(ctx, id, "", protocol.SignalRenew, protocol.Renew{}); err != nil {
			return err
		}
	}
	return scenario.Again(ctx, "N leaves the novel session to newer workers", func(ctx context.Context) error {
		r := p.lab.Ctl(ctx, nil, "session", "send", novel, "--no-wait", "--message-id", missing, missed)
		if !strings.Contains(r.Stdout+r.Stderr, "newer") {
			return fmt.Errorf("it says: %w", r)
		}
		return nil
	})
}

const missing = "missed" // the id of that message

// meetNovel looks, under N+1 again, whether the message and the rules have outlasted N. The
// message is sent again, as somebody would who was told that it waits: it is one message.
func (p *play) meetNovel(ctx context.Context) error {
	if err := p.ctl(ctx, "session", "send", novel, "--no-wait", "--message-id", missing, missed); err != nil {
		return err
	}
	if err := p.ended(ctx, novel); err != nil {
		return err
	}
	return p.see(ctx, novel, "the rule of its seed has started a follow-up", func(v protocol.SessionView) bool {
		return slices.ContainsFunc(v.FollowUps, func(f protocol.FollowUpView) bool { return f.Name == "review" && f.Status == "completed" })
	})
}
