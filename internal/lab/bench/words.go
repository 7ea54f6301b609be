package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"fairlead.dev/fairlead/conversation/wire"
)

// firstWords runs the same prompt through `ctl run` and by hand, alternately,
// each with a fresh home, and measures the time to the first words of the
// answer. By hand is measured twice: with a permission profile like Fairlead's,
// and in a plain sandbox, in which the agent can read the credential.
func (b *setup) firstWords(ctx context.Context) error {
	n := b.turns
	fmt.Printf("  warm host, median of %d, goal ≤ 0.5 s more\n", n)
	var ours, plain, bare series
	for i := range n + 1 {
		mine, err := b.ctlRun(ctx)
		if err != nil {
			return err
		}
		theirs, _, err := b.byHand(ctx, filepath.Join(b.lab.Dir, fmt.Sprintf("hand-%d", i)), "", "permissions", "denying")
		if err != nil {
			return err
		}
		open, _, err := b.byHand(ctx, filepath.Join(b.lab.Dir, fmt.Sprintf("open-%d", i)), "", "sandbox", "workspace-write")
		if err != nil {
			return err
		}
		if i > 0 { // the first round is the warm-up
			ours, plain, bare = append(ours, mine), append(plain, theirs), append(bare, open)
		}
	}
	fmt.Println(" by hand with the same kind of profile:")
	compare(ours, plain)
	fmt.Println(" by hand in a plain sandbox, the credential open to the agent:")
	compare(ours, bare)
	return nil
}

func (b *setup) ctlRun(ctx context.Context) (time.Duration, error) {
	c := b.lab.Command(ctx, "run", "--host", "web-1", "--seed", "bench", "-q=false", "say yes")
	out, err := c.StdoutPipe()
	if err != nil {
		return 0, err
	}
	var errs bytes.Buffer
	c.Stderr = &errs
	begin := time.Now()
	if err := c.Start(); err != nil {
		return 0, err
	}
	d, seen := until(out, []byte("Yes"), begin)
	if err := c.Wait(); err != nil || !seen {
		return 0, fmt.Errorf("ctl run: %v, words seen: %v: %s", err, seen, errs.String())
	}
	return d, nil
}

// until reads to the end and returns when the words arrived.
func until(r io.Reader, words []byte, begin time.Time) (d time.Duration, seen bool) {
	var all []byte
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		if !seen {
			all = append(all, buf[:n]...)
			if bytes.Contains(all, words) {
				d, seen = time.Since(begin), true
			}
		}
		if err != nil {
			return d, seen
		}
	}
}

// byHand starts codex, starts or resumes a thread, and sends a message.
func (b *setup) byHand(ctx context.Context, home, thread, key, value string) (d time.Duration, _ string, err error) {
	begin := time.Now()
	p, err := b.plainServer(ctx, home)
	if err != nil {
		return 0, "", err
	}
	first, over := make(chan struct{}, 1), make(chan struct{}, 1)
	c := wire.NewConn(p, wire.ConnConfig{Notify: func(method string, _ json.RawMessage) {
		to := map[string]chan struct{}{"item/agentMessage/delta": first, "turn/completed": over}[method]
		select {
		case to <- struct{}{}:
		default:
		}
	}})
	defer func() { err = errors.Join(err, c.Close()) }()
	if _, err := wire.Handshake(ctx, c, wire.ClientInfo{Name: "bench", Version: "1"}); err != nil {
		return 0, "", err
	}
	var started struct {
		Thread struct{ ID string } `json:"thread"`
	}
	method, params := "thread/start", map[string]any{"cwd": home + "-work", "approvalPolicy": "on-request", key: value}
	if thread != "" {
		method, params["threadId"] = "thread/resume", thread
	}
	if err := c.Call(ctx, method, params, &started); err != nil {
		return 0, "", err
	}
	input := []map[string]string{{"type": "text", "text": "say yes"}}
	if err := c.Call(ctx, "turn/start", map[string]any{"threadId": started.Thread.ID, "input": input}, nil); err != nil {
		return 0, "", err
	}
	select {
	case <-first:
		d = time.Since(begin)
	case <-ctx.Done():
		return 0, "", ctx.Err()
	case <-time.After(time.Minute):
		return 0, "", fmt.Errorf("no words came within a minute")
	}
	select { // a turn that is interrupted has another history
	case <-over:
	case <-time.After(time.Minute):
		return 0, "", fmt.Errorf("the turn did not end within a minute")
	}
	return d, started.Thread.ID, nil
}
