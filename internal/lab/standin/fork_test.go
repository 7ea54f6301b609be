package standin_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The stand-in and codex fork a thread and inject a message: both send the
// same, the fork's history is the source's, and it needs the source's rollout.
func TestForkAndInjectedMessageLookLikeCodexs(t *testing.T) {
	ours, real := both(t)
	for _, p := range []*peer{ours, real} {
		p.open()
		id := p.thread()
		p.turn(id, "say 3")
		p.method("turn/completed")
		p.said = nil
		l := p.call("thread/fork", fmt.Sprintf(`{"threadId":%q,"cwd":%q,"approvalPolicy":"on-request","sandbox":"workspace-write","model":"gpt-5.5","excludeTurns":true}`, id, p.work))
		fork := pick(t, l.Result, "thread", "id")
		p.method("thread/started")
		p.call("thread/inject_items", fmt.Sprintf(`{"threadId":%q,"items":[{"type":"message","role":"developer","content":[{"type":"input_text","text":"you are a fork"}]}]}`, fork))
		p.turn(fork, "say 2")
		p.method("turn/completed")
		p.call("thread/turns/list", fmt.Sprintf(`{"threadId":%q,"limit":5,"itemsView":"full"}`, fork))
		last := p.said[len(p.said)-1].raw
		if n := strings.Count(last, `"rootTurnId"`); n != 2 || !strings.Contains(last, "say 3") || strings.Contains(last, "you are a fork") {
			t.Errorf("%s: the fork's %d turns are %s", p.cmd.Path, n, last)
		}
		p.stop()
		var kept string
		files, err := filepath.Glob(filepath.Join(p.dir, "codex-home", "sessions", "*", "*", "*", "*.jsonl"))
		if err != nil || len(files) != 2 {
			t.Fatalf("%s: rollouts %q, %v", p.cmd.Path, files, err)
		}
		for _, name := range files {
			if strings.Contains(name, fork) {
				text, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				kept = string(text)
			} else if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
		if strings.Count(kept, "you are a fork") != 1 || strings.Contains(kept, "say 3") {
			t.Errorf("%s: the fork's rollout is\n%s", p.cmd.Path, kept)
		}
		said := p.said
		again := start(t, p.cmd.Path, p.dir, readConfig(t, p.dir))
		again.open()
		l = again.call("thread/resume", fmt.Sprintf(`{"threadId":%q,"cwd":%q,"approvalPolicy":"never","sandbox":"read-only"}`, fork, p.work))
		if l.Error == nil || l.Error.Code != -32600 || !strings.Contains(l.Error.Message, "missing source rollout") {
			t.Errorf("%s: without its source the fork is resumed: %s", p.cmd.Path, l.raw)
		}
		p.said = said
	}
	compare(t, ours, real)
}

func readConfig(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "codex-home", "config.toml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
