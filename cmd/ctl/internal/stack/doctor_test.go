package stack

import (
	"testing"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
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
