package authority

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/login"
	"fairlead.dev/fairlead/internal/stack"
)

// TestRecordsNameTheAccessFileThatJudgedThem also tries a login that is refused, and has ctl verify
// what it saw before.
func TestRecordsNameTheAccessFileThatJudgedThem(t *testing.T) {
	file, err := os.ReadFile(filepath.Join(keys, "access.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	start(t, "judged")
	mustDo(t, "alice", "session", "send", "judged", "hello")
	if r := as(t, "vera", "session", "send", "judged", "hello", "--no-wait"); r.Code != 6 {
		t.Errorf("a viewer's message: %v", r)
	}
	info, err := stack.Read(e2e.Lab.State)
	if err != nil {
		t.Fatal(err)
	}
	c, err := api.Connect(info.Workers[0].API, config.API{}, api.Proof{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	part := base64.RawURLEncoding.EncodeToString
	token := part([]byte(`{"alg":"none"}`)) + "." + part([]byte(`{"email":"eve@example.com"}`)) + "." + part([]byte("no signature"))
	if _, err := c.LogIn(e2e.Within(t), login.Request{IDToken: token, PublicKey: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGphYCZg2I1ZbrWa4yHyyodsuxrEAUtjz8Dl9ksP2Fz/"}); err == nil {
		t.Fatal("the login is not refused")
	}
	all, err := lab.Lines[audit.Record](e2e.Within(t), e2e.Lab, "audit", "list")
	if err != nil {
		t.Fatal(err)
	}
	digest := audit.Digest(string(file))
	for what, is := range map[string]func(audit.Record) bool{
		"a start": func(r audit.Record) bool {
			return r.Verb == "session.start" && r.Outcome == audit.Accepted && r.Object == "session/judged"
		},
		"an update that was accepted": func(r audit.Record) bool {
			return r.Verb == "session.message" && r.Outcome == audit.Accepted && r.Object == "session/judged"
		},
		"an update that was refused": func(r audit.Record) bool {
			return r.Verb == "session.message" && r.Outcome == audit.Refused && r.Principal == "vera" && r.Object == "session/judged"
		},
		"a login that was refused": func(r audit.Record) bool {
			return r.Verb == audit.CertificateIssue && r.Outcome == audit.Refused && r.Principal == "" && strings.Contains(r.Reason, `nobody has verified: email="eve@example.com"`) && !strings.Contains(r.Reason, token)
		},
	} {
		if i := slices.IndexFunc(all, is); i < 0 {
			t.Errorf("%s is not on record", what)
		} else if all[i].Access != digest {
			t.Errorf("%s was judged by %q, want %q", what, all[i].Access, digest)
		}
	}
	for range 2 { // the second time, ctl compares with what it saw
		e2e.OK(t, "audit", "verify")
		e2e.OK(t, "audit", "verify", "--session", "judged")
	}
	e2e.Until(t, "each workflow to tell its newest record", func() (bool, error) { // a worker may be too busy to answer in time
		r := e2e.Lab.Ctl(e2e.Within(t), nil, "audit", "verify", "--ask")
		if r.Code != 0 {
			return false, r
		}
		return true, nil
	})
}

// The store takes no audit records, a command is refused, and the worker is killed. The record is
// there once the store is back.
func TestARefusalIsOnRecordAlsoIfTheStoreIsAwayAndItsWorkerIsKilled(t *testing.T) {
	start(t, "kept")
	info, err := stack.Read(e2e.Lab.State)
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(strings.TrimPrefix(info.Store.URL, "file://"), "audit")
	if err := os.Rename(folder, folder+".away"); err != nil {
		t.Fatal(err)
	}
	back := func() error {
		if _, err := os.Stat(folder + ".away"); err != nil {
			return nil
		}
		if err := os.Remove(folder); err != nil {
			return err
		}
		return os.Rename(folder+".away", folder)
	}
	t.Cleanup(func() {
		if err := back(); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(folder, nil, 0o600); err != nil { // no folder can be made there
		t.Fatal(err)
	}
	if r := as(t, "vera", "session", "send", "kept", "hello", "--no-wait"); r.Code != 6 {
		t.Errorf("a viewer's message: %v", r)
	}
	spools := filepath.Join(e2e.Lab.State, "worker", "refusals", info.Store.ID, "*.spool")
	if files, err := filepath.Glob(spools); err != nil || len(files) == 0 {
		t.Errorf("files %q, %v", files, err)
	}
	e2e.Kill(t, e2e.WorkerPID(t)) // its supervisor begins another one
	if err := back(); err != nil {
		t.Fatal(err)
	}
	e2e.Until(t, "the record to be in the store", func() (bool, error) {
		all, err := lab.Lines[audit.Record](e2e.Within(t), e2e.Lab, "audit", "list", "--session", "kept")
		if err != nil { // the worker begins
			return false, nil
		}
		return slices.ContainsFunc(all, func(r audit.Record) bool {
			return r.Verb == "session.message" && r.Outcome == audit.Refused && r.Principal == "vera"
		}), nil
	})
	e2e.OK(t, "audit", "verify")
	e2e.Until(t, "the file to be removed", func() (bool, error) {
		files, err := filepath.Glob(spools)
		return len(files) == 0, err
	})
}
