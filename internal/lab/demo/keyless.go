package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/protocol"
)

// keyless runs a second session, whose host gets no credential, and looks for one there.
func keyless(ctx context.Context, l *lab.Lab) error {
	step("A second session; its host gets no credential, and its worker asks the model for it")
	if err := show(ctx, l, "session", "start", "--host", "web-1", "--seed", "demo", "--credentials", "gateway", "--id", "keyless"); err != nil {
		return err
	}
	const said = "Hello from a host without a key."
	var turn protocol.TurnView
	fmt.Printf("$ ctl session send keyless %q\n", said)
	if err := l.JSON(ctx, &turn, "session", "send", "keyless", said); err != nil {
		return err
	}
	quote(turn.FinalText)
	if turn.Status != "completed" || !strings.Contains(turn.FinalText, said) {
		return fmt.Errorf("the turn of the session without a key %s with %q", turn.Status, turn.FinalText)
	}
	found, files, _, err := lab.FindSecret(l.Token, filepath.Join(l.Dir, "host web-1"))
	if err != nil {
		return err
	}
	if len(found) > 0 || files == 0 {
		return fmt.Errorf("the seed's secret stands in %s (%d files of the host)", strings.Join(found, ", "), files)
	}
	codex, knows := l.CodexOf("keyless"), false
	for _, pid := range codex {
		has, err := lab.InMemory(pid, l.Token)
		if err != nil {
			return err
		}
		if has {
			return fmt.Errorf("codex (%d) has the seed's secret in its memory", pid)
		}
		heard, err := lab.InMemory(pid, said)
		if err != nil {
			return err
		}
		knows = knows || heard
	}
	if !knows { // otherwise the search proves nothing
		return fmt.Errorf("what was said is in the memory of no codex (%v)", codex)
	}
	var v protocol.SessionView
	if err := l.JSON(ctx, &v, "session", "show", "keyless"); err != nil {
		return err
	}
	if v.Gateway == nil || v.Gateway.Requests == 0 || v.Gateway.Failed != 0 {
		return fmt.Errorf("the gateway did %+v", v.Gateway)
	}
	fmt.Printf("  asked by the worker  %d request(s) for the model\n", v.Gateway.Requests)
	fmt.Printf("  the seed's secret    in none of %d files of the host, not in the memory of its codex\n", files)
	return show(ctx, l, "session", "close", "keyless")
}
