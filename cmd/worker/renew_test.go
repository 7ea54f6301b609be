package main

import (
	"log/slog"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
)

// Workers that have come to require authority ask the long workflows of before to continue
// as new, and no others.
func TestWhatBeganBeforeAllWorkersHadTheKeyIsAskedToContinueAsNew(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address, port := ln.Addr().String(), ln.Addr().(*net.TCPAddr).Port
	ln.Close()
	start(t, exec.Command(realparts.DevServer(t), "server", "start-dev", "--headless", "--port", strconv.Itoa(port), "--db-filename", filepath.Join(t.TempDir(), "t.db")))
	c, err := client.NewLazyClient(client.Options{HostPort: address})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	begin := func(id, kind string) {
		t.Helper()
		wait(t, id+" begins", func() bool {
			_, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: "none"}, kind)
			return err == nil
		})
	}
	asked := func(id string) (n int) {
		t.Helper()
		it := c.GetWorkflowHistory(t.Context(), id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for it.HasNext() {
			ev, err := it.Next()
			if err != nil {
				t.Fatal(err)
			}
			if ev.GetWorkflowExecutionSignaledEventAttributes().GetSignalName() == protocol.SignalRenew {
				n++
			}
		}
		return n
	}
	begin("session/old", protocol.TypeSession)
	begin("pool/old", protocol.TypeHostPool)
	begin("exec/old", protocol.TypeExec)
	since := time.Now().Add(2 * time.Second).Truncate(time.Second)
	wait(t, "all workers have the key", func() bool { return time.Now().After(since.Add(time.Second)) })
	begin("session/new", protocol.TypeSession)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	if err := renewOlder(t.Context(), c, time.Time{}, log); err != nil || asked("session/old") != 0 {
		t.Errorf("without a time, %d are asked: %v", asked("session/old"), err)
	}
	wait(t, "the old ones are asked", func() bool { // Temporal's lists are a little late
		if err := renewOlder(t.Context(), c, since, log); err != nil {
			t.Fatal(err)
		}
		return asked("session/old") > 0 && asked("pool/old") > 0
	})
	if n := asked("exec/old") + asked("session/new"); n != 0 {
		t.Errorf("%d others are asked", n)
	}
}
