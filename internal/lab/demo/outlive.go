package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/protocol"
)

// lastN is how far the model counts in the third turn. The worker is killed at
// killAt. At heldAt the model waits until somebody listens again, so that there
// are words before, during and after the outage.
const (
	killAt = 12
	heldAt = 40
	lastN  = 60
)

// thirdTurn kills the worker while the model streams.
func thirdTurn(ctx context.Context, l *lab.Lab) error {
	step("Turn 3: codex counts to %d, and its worker is killed with -9 in the middle", lastN)
	before, asked, codex := worker(ctx, l), len(l.Model.Requests()), l.CodexOf("demo")
	if before == 0 || len(codex) == 0 {
		return fmt.Errorf("worker %d, codex %v: one of them is not there", before, codex)
	}
	prompt := fmt.Sprintf("Count slowly to %d.", lastN)
	fmt.Printf("$ ctl session send demo %q\n", prompt)
	send := l.Command(ctx, "session", "send", "demo", prompt)
	heard, err := listen(ctx, l, send, before)
	if err != nil {
		return fmt.Errorf("the third turn: %w", err)
	}
	if err := inOrder(heard); err != nil {
		return fmt.Errorf("the third turn: %w", err)
	}
	after, codexAfter := worker(ctx, l), l.CodexOf("demo")
	fmt.Printf("\n  the viewer heard     1 to %d, each once, in order\n", lastN)
	fmt.Printf("  the model was asked  once\n")
	fmt.Printf("  worker               %d, then %d\n", before, after)
	fmt.Printf("  codex                %d all the time: it never noticed\n", codex[0])
	switch n := len(l.Model.Requests()) - asked; {
	case n != 1:
		return fmt.Errorf("the model was asked %d times for one turn", n)
	case after == 0 || after == before:
		return fmt.Errorf("the worker was %d and is %d: it never died", before, after)
	case !slices.Equal(codex, codexAfter):
		return fmt.Errorf("codex was %v and is %v: it did not outlive its worker", codex, codexAfter)
	}
	return nil
}

// worker returns the pid of the stack's only worker; 0 if there is none.
func worker(ctx context.Context, l *lab.Lab) int {
	var st lab.Status
	if err := l.JSON(ctx, &st, "status"); err != nil || len(st.Workers) != 1 {
		return 0
	}
	return st.Workers[0].PID
}

// listen prints ctl's output as it arrives, kills the worker after some words,
// and releases the model when words arrive again.
func listen(ctx context.Context, l *lab.Lab, send *exec.Cmd, pid int) (string, error) {
	pipe, err := send.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := send.Start(); err != nil {
		return "", err
	}
	words := make(chan string)
	go func() {
		defer close(words)
		buf := make([]byte, 4096)
		for {
			n, err := pipe.Read(buf)
			if n > 0 {
				words <- string(buf[:n])
			}
			if err != nil {
				return // ctl has ended; its status is checked below
			}
		}
	}()
	var heard strings.Builder
	var killed time.Time
	again, released, held := false, false, "" // held: a line's end that is printed with the next words
	fmt.Print("  | ")
	for s := range words {
		if !killed.IsZero() && !again && time.Since(killed) > time.Second {
			again = true
			fmt.Printf("\n  ⟲ %.1f s later another worker has taken over; what was said meanwhile comes in one piece\n  | ", time.Since(killed).Seconds())
		}
		fmt.Print(strings.ReplaceAll(held+strings.TrimSuffix(s, "\n"), "\n", "\n  | "))
		held = s[len(strings.TrimSuffix(s, "\n")):]
		heard.WriteString(s)
		switch n := highest(heard.String()); {
		case killed.IsZero() && n >= killAt:
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				return "", fmt.Errorf("kill worker %d: %w", pid, err)
			}
			killed = time.Now()
			fmt.Printf("\n  ✂ kill -9 %d: nobody listens to codex any more\n  | ", pid)
		case !released && n >= heldAt:
			released = true
			l.Model.Release("counted")
			fmt.Print("\n  ▶ and goes on as if nothing had happened\n  | ")
		}
	}
	fmt.Println()
	if err := send.Wait(); err != nil {
		return "", err
	}
	if killed.IsZero() || !again || !released {
		return "", fmt.Errorf("it was over before the worker was killed, or before another one took over: %q", heard.String())
	}
	return heard.String(), nil
}

var number = regexp.MustCompile(`\d+`)

// highest returns the newest number that is complete, that is, followed by a
// space.
func highest(text string) int {
	all := number.FindAllString(text[:strings.LastIndexByte(text, ' ')+1], -1)
	if len(all) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(all[len(all)-1]) // the pattern matches digits
	return n
}

// inOrder checks that text has each number from 1 to lastN once, in order.
func inOrder(text string) error {
	all := number.FindAllString(text, -1)
	for i, s := range all {
		if s != strconv.Itoa(i+1) {
			return fmt.Errorf("after %d came %s: %q", i, s, text)
		}
	}
	if len(all) != lastN {
		return fmt.Errorf("it ended with %d: %q", len(all), text)
	}
	return nil
}

// fourthTurn decides an approval while no worker runs. A second decision is refused.
func fourthTurn(ctx context.Context, l *lab.Lab) error {
	step("Turn 4: codex asks, and all workers are gone before anybody answers")
	if err := show(ctx, l, "session", "send", "demo", "--no-wait", "Put a line into the ledger."); err != nil {
		return err
	}
	if err := waits(ctx, l, "demo.3"); err != nil {
		return err
	}
	for _, args := range [][]string{{"down"}, {"up", "--detach", "--workers", "0"}, {"status"}, {"approval", "list"}} {
		if err := show(ctx, l, args...); err != nil {
			return err
		}
	}
	accept := []string{"approval", "accept", "demo.3", "--reason", "at night, with no worker up", "--timeout", "3s"}
	fmt.Printf("[bob] $ ctl %s\n", typed(accept))
	first := asBob(ctx, l, accept...)
	fmt.Print(first.Stderr, first.Stdout)
	if first.Code != 0 {
		return first
	}
	if n := worker(ctx, l); n != 0 {
		return fmt.Errorf("worker %d is up, and there was to be none", n)
	}
	ledger := filepath.Join(folderOn(l, "web-1"), "work", "ledger.txt")
	if _, err := os.Stat(ledger); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("the command ran before codex could know of the decision (%v)", err)
	}
	fmt.Println("Nothing has run yet. The workers come back:")
	for _, args := range [][]string{{"down"}, {"up", "--detach"}} {
		if err := show(ctx, l, args...); err != nil {
			return err
		}
	}
	turn, err := turnEnd(ctx, l, 4)
	if err != nil {
		return err
	}
	quote(turn.FinalText)
	data, err := os.ReadFile(ledger)
	if err != nil {
		return err
	}
	fmt.Printf("  the ledger holds     %q: the command ran once\n", data)
	fmt.Println("[bob] $ ctl approval decline demo.3")
	second := asBob(ctx, l, "approval", "decline", "demo.3")
	fmt.Printf("%s(exit %d)\n", second.Stderr, second.Code)
	if second.Code != 6 {
		return fmt.Errorf("a second decision was not refused: %w", second)
	}
	if string(data) != "paid\n" || turn.Status != "completed" {
		return fmt.Errorf("the turn %s, the ledger holds %q", turn.Status, data)
	}
	return nil
}

// waits waits for an approval that a person is to decide.
func waits(ctx context.Context, l *lab.Lab, id string) error {
	return lab.Until(ctx, "approval "+id, func() (bool, error) {
		list, err := lab.Lines[protocol.Approval](ctx, l, "approval", "list")
		return slices.ContainsFunc(list, func(a protocol.Approval) bool { return a.ID == id }), err
	})
}

// onRecord checks the whole transcript: no entry is missing or repeated, and
// each decision is there once.
func onRecord(ctx context.Context, l *lab.Lab) error {
	list, err := lab.Lines[protocol.Entry](ctx, l, "transcript", "demo")
	if err != nil {
		return err
	}
	ids, decisions := map[string]bool{}, []string{}
	for i, e := range list {
		if e.Seq != int64(i+1) || ids[e.ID] {
			return fmt.Errorf("entry %d of the transcript is %d (%s): one is missing, or comes twice", i+1, e.Seq, e.ID)
		}
		ids[e.ID] = true
		if e.Type == protocol.EntryDecision {
			decisions = append(decisions, e.Text)
		}
	}
	want := []string{"accept demo.1", "decline demo.2", "accept demo.3"}
	if !slices.Equal(decisions, want) {
		return fmt.Errorf("the decisions on record are %q, not %q", decisions, want)
	}
	fmt.Printf("\n%d entries, numbered 1 to %d: none is missing, none comes twice; %d decisions, each once\n", len(list), len(list), len(decisions))
	return nil
}
