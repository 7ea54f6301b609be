package stack

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/authority"
)

func TestDoctorNamesTheAddressesThatAreNotTrusted(t *testing.T) {
	workers := []conn.WorkerView{
		{API: "unix:///run/a", Reachable: true}, {API: "unix:///run/b", Problem: "no worker answers"},
		{API: "http://127.0.0.1:7", Refused: true, Problem: "plain HTTP"}, {API: "https://h:1", Refused: true, Problem: "no CA"},
	}
	err := untrusted(workers)
	if err == nil || err.Error() != "http://127.0.0.1:7: plain HTTP; https://h:1: no CA" {
		t.Errorf("doctor says %v", err)
	}
	if err := untrusted(workers[:2]); err != nil {
		t.Errorf("without such a worker: %v", err)
	}
}

func TestDoctorNamesTheAccessFileInForceAndWhyANewerOneIsNot(t *testing.T) {
	noon := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	good := authority.Standing{Path: "/etc/access.yaml", Digest: "aaaa", Since: noon}
	broken := good
	broken.Broken, broken.BrokenSince = "line 3: no such role", noon.Add(time.Hour)
	other := good
	other.Digest = "bbbb"
	of := func(all ...*authority.Standing) (st []api.Status) {
		for i, a := range all {
			st = append(st, api.Status{Identity: string(rune('a' + i)), Access: a})
		}
		return st
	}
	if detail, hint, err := accessOf(of(nil, nil)); detail+hint != "" || err != nil {
		t.Errorf("without a file: %q, %q, %v", detail, hint, err)
	}
	if detail, _, err := accessOf(of(&good, nil, &good)); err != nil || detail != "/etc/access.yaml, digest aaaa, in force since 2026-05-04T12:00:00Z" {
		t.Errorf("one good file: %q, %v", detail, err)
	}
	_, hint, err := accessOf(of(&good, &broken))
	if err == nil || !strings.Contains(hint, "ctl access check /etc/access.yaml") {
		t.Fatalf("a broken file: %v, hint %q", err, hint)
	}
	for _, want := range []string{"worker b: ", "since 2026-05-04T13:00:00Z", "digest aaaa", "line 3: no such role", "last good one"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("a broken file: %q is not told: %v", want, err)
		}
	}
	if _, _, err := accessOf(of(&good, &other)); err == nil || !strings.Contains(err.Error(), "bbbb") {
		t.Errorf("two files: %v", err)
	}
}
