package api

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/audit"
)

// onRecord stores n records of an entity, and returns their lines.
func (b *bench) onRecord(entity string, n int) []string {
	b.Helper()
	c := audit.Chain{Entity: entity}
	for i := range n {
		c.Add(audit.Record{At: audit.TimeText(time.Unix(int64(i), 0)), Principal: "ann", Source: audit.Unix, Verb: "session.set", Object: "session/s1", Outcome: audit.Accepted})
	}
	if err := records.WriteAudit(b.Context(), b.store, *c.Batch()); err != nil {
		b.Fatal(err)
	}
	return c.Waiting
}

// told returns the records that a client gets.
func told(t *testing.T, c *Client, workflow string) (lines []string, err error) {
	t.Helper()
	for line, err := range c.Audit(t.Context(), workflow) {
		if err != nil {
			return lines, err
		}
		lines = append(lines, line)
	}
	return lines, nil
}

func TestTheRecordsOfOneSessionComeWithTheWorkers(t *testing.T) {
	c := lockedBench(t)
	own, worker := c.onRecord("session/s1/Run-1", 2), c.onRecord("worker/w1", 1)
	next := c.onRecord("session/s1/run-2", 1)
	others := slices.Concat(c.onRecord("session/s10/run-1", 1), c.onRecord("session/s/run-1", 1), c.onRecord("batch/s1/run-1", 1))
	same := func(what string, got, want []string) {
		t.Helper()
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	ours := slices.Concat(own, worker, next)
	got, err := told(t, c.as("ann"), "session/s1")
	if err != nil {
		t.Fatal(err)
	}
	same("of s1", got, ours)
	if got, err = told(t, c.as("ann"), ""); err != nil {
		t.Fatal(err)
	}
	same("all", got, slices.Concat(ours, others))
	pool, nightly := c.onRecord("pool/default/run-1", 1), c.onRecord("schedule/nightly-2026-05-04T12:00:00Z/run-1", 1)
	for workflow, want := range map[string][]string{"pool/default": pool, "schedule/nightly": nightly, "batch/s1": others[2:], "../session": nil} {
		if got, err = told(t, c.as("ann"), workflow); err != nil {
			t.Fatal(err)
		}
		same("of "+workflow, got, slices.Concat(want, worker))
	}
	for _, session := range []string{"../worker", "s1/run", "s1\n", "-"} {
		var e *Error
		if lines, err := told(t, c.as("ann"), "session/"+session); !errors.As(err, &e) || e.Kind != ErrBadInput || len(lines) > 0 {
			t.Errorf("session %q: %d records, %v", session, len(lines), err)
		}
	}
	for _, who := range []string{"vic", "olga", "own", "nobody"} {
		var e *Error
		if lines, err := told(t, c.as(who), "session/s1"); !errors.As(err, &e) || e.Kind != ErrForbidden || len(lines) > 0 {
			t.Errorf("%s, who has no role for it: %d records, %v", who, len(lines), err)
		}
	}
}

// TestALineThatIsTooLongForARecordIsCutAndStaysOne covers the store of somebody who hides
// what follows behind a line that no reader takes.
func TestALineThatIsTooLongForARecordIsCutAndStaysOne(t *testing.T) {
	b := serve(t, nil)
	if err := b.store.Create(t.Context(), records.AuditKeys("session/s1/run-1")+"000000000001-1-x", []byte(strings.Repeat("\x01", 1<<20)+"\n")); err != nil {
		t.Fatal(err)
	}
	b.onRecord("session/s1/run-2", 1)
	lines, err := told(t, b.client(""), "session/s1")
	if err != nil || len(lines) != 2 || len(lines[0]) != audit.MaxLine+1 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	if _, err := audit.Parse(lines[0]); err == nil {
		t.Error("it counts as a record")
	}
	if _, err := audit.Parse(lines[1]); err != nil {
		t.Error(err)
	}
}

// TestRecordsThatBreakOffAreNotTakenForAll has a worker that is a stranger.
func TestRecordsThatBreakOffAreNotTakenForAll(t *testing.T) {
	one := `{"kind":"audit","audit":"{}"}` + "\n"
	for what, c := range map[string]struct {
		answer io.Reader
		want   int
		says   string
	}{
		"no last line":     {strings.NewReader(one + one), 2, "unexpected EOF"},
		"half a line":      {strings.NewReader(one + one[:10]), 1, "unexpected EOF"},
		"no JSON":          {strings.NewReader(one + "<html>\n"), 1, "invalid character"},
		"an error":         {strings.NewReader(one + `{"kind":"error","error":{"kind":"store","message":"the store is away"}}` + "\n"), 1, "the store is away"},
		"a line for ever":  {io.MultiReader(strings.NewReader(one+`{"kind":"audit","audit":"`), endless{}), 1, "buffer full"},
		"spaces for ever":  {io.MultiReader(strings.NewReader(one), endless{' '}), 1, "buffer full"},
		"a line, and more": {strings.NewReader(one + `{"kind":"end"}` + "\n" + one), 1, ""},
	} {
		t.Run(what, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s")
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, c.answer) })} // until the client hangs up
			done := make(chan error, 1)
			go func() { done <- srv.Serve(l) }()
			defer func() { srv.Close(); <-done }()
			client, err := NewClient("unix://"+path, ClientOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			lines, err := told(t, client, "")
			if len(lines) != c.want || (err == nil) != (c.says == "") || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("%d records, %v", len(lines), err)
			}
		})
	}
}

// endless is a reader of one byte that repeats.
type endless [1]byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e[0] | ' '
	}
	return len(p), nil
}
