package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/deploy/lab"
	"fairlead.dev/fairlead/deploy/scriptedauth"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/workflows"
)

// The stack that the tests share: host web-1 is root's, on a root folder with
// spaces, quotes and other letters in its name; web-2 is an ordinary user's.
var (
	shared *lab.Lab
	repo   string
	root1  string // web-1's root folder
	web1   *hosttest.SSHD
	issuer *scriptedauth.Server
)

func TestMain(m *testing.M) {
	if os.Getenv("DESK_TOLD") != "" {
		os.Exit(desk(os.Stdin, os.Stdout, os.Getenv("DESK_TOLD")))
	}
	code, err := setUp(m)
	if err != nil {
		fmt.Fprintf(os.Stderr, "end-to-end: %v\n", err)
		code = 1
	}
	os.Exit(code)
}

func setUp(m *testing.M) (code int, err error) {
	if repo, err = filepath.Abs("../.."); err != nil {
		return 1, err
	}
	script, err := os.ReadFile("model.yaml")
	if err != nil {
		return 1, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	issuer = scriptedauth.New(nil)
	if err := issuer.Start("127.0.0.1:0"); err != nil {
		return 1, err
	}
	defer issuer.Close()
	if shared, err = lab.New(ctx, lab.Options{Repo: repo, Script: script, Config: "limits: {watch: 1s}\nseeds: {token_endpoint: \"" + issuer.TokenEndpoint() + "\"}\n"}); err != nil {
		return 1, err
	}
	watch := lab.WatchProcesses(shared.Token)
	defer func() {
		seen, samples := watch.Stop()
		if len(seen) > 0 || samples == 0 {
			err = fmt.Errorf("the seed's secret was seen in %s (%d samples)", strings.Join(seen, ", "), samples)
		}
		if cerr := shared.Close(); err == nil {
			err = cerr
		}
	}()
	root1 = filepath.Join(shared.Dir, "it's a hôst")
	if web1, err = shared.AddHost(ctx, "web-1", hosttest.Options{Root: root1}); err != nil {
		return 1, err
	}
	if err := shared.ImportSeed(ctx, "team"); err != nil {
		return 1, err
	}
	if _, err := shared.Out(ctx, "host", "provision", "web-1"); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// within gives a test its time.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func ok(t *testing.T, args ...string) string {
	t.Helper()
	out, err := shared.Out(within(t), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// session starts a session on web-1 that is closed with the test.
func session(t *testing.T, id string, flags ...string) {
	t.Helper()
	ok(t, append([]string{"session", "start", "--host", "web-1", "--seed", "team", "--id", id}, flags...)...)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		var v workflows.SessionView
		if err := shared.JSON(ctx, &v, "session", "show", id); err != nil || v.State == workflows.Closed {
			return
		}
		if r := shared.Ctl(ctx, nil, "session", "close", id); r.Code != 0 {
			t.Errorf("close: %v", r)
		}
		if left := lab.Below(filepath.Join(root1, "sessions", id)); len(left) > 0 {
			t.Errorf("processes of session %s are left: %v", id, left)
		}
	})
}

// send says something and does not wait for the answer.
func send(t *testing.T, id, text string) workflows.MessageAccepted {
	t.Helper()
	var acc workflows.MessageAccepted
	if err := shared.JSON(within(t), &acc, "session", "send", id, "--no-wait", text); err != nil {
		t.Fatal(err)
	}
	return acc
}

// turn runs one turn to its end.
func turn(t *testing.T, id, text string) workflows.TurnView {
	t.Helper()
	var v workflows.TurnView
	if err := shared.JSON(within(t), &v, "session", "send", id, text); err != nil {
		t.Fatal(err)
	}
	return v
}

func show(t *testing.T, id string) workflows.SessionView {
	t.Helper()
	var v workflows.SessionView
	if err := shared.JSON(within(t), &v, "session", "show", id); err != nil {
		t.Fatal(err)
	}
	return v
}

func until(t *testing.T, what string, cond func() (bool, error)) {
	t.Helper()
	if err := lab.Until(within(t), what, cond); err != nil {
		t.Fatal(err)
	}
}

// open waits for n open approvals of a session.
func open(t *testing.T, id string, n int) []workflows.Approval {
	t.Helper()
	var list []workflows.Approval
	until(t, fmt.Sprintf("%d approvals of %s", n, id), func() (bool, error) {
		var err error
		list, err = lab.Lines[workflows.Approval](within(t), shared, "approval", "list", "--session", id)
		return len(list) == n, err
	})
	return list
}

// final are the words for a turn that has ended. With no worker up a session is
// shown as Temporal keeps it, without any.
var final = map[string]bool{"completed": true, "interrupted": true, "failed": true, "unknown": true}

// idle waits until a session takes messages.
func idle(t *testing.T, id string) {
	t.Helper()
	until(t, id+" to be idle", func() (bool, error) { return show(t, id).State == workflows.Idle, nil })
}

// ended waits for a turn's end by asking for the session.
func ended(t *testing.T, id string, n int) workflows.SessionView {
	t.Helper()
	var v workflows.SessionView
	until(t, fmt.Sprintf("the end of turn %d of %s", n, id), func() (bool, error) {
		v = show(t, id)
		return v.Turn != nil && v.Turn.N == n && final[v.Turn.Status], nil
	})
	return v
}
