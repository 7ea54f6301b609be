package e2e

import (
	"path/filepath"
	"syscall"
	"testing"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/stack"
)

// OwnWorker returns the pid of the stack's own worker; 0 if there is none.
// Temporal lists workers that a test added for minutes after their end.
func OwnWorker(st lab.Status) (pid int) {
	for _, w := range st.Workers {
		if w.API != "unix://"+filepath.Join(Lab.State, "api.sock") {
			continue
		}
		if pid != 0 {
			return 0 // the old one has exited and a new one is up
		}
		pid = w.PID
	}
	return pid
}

// WorkerPID returns the pid of the stack's worker, which must be up.
func WorkerPID(t *testing.T) int {
	t.Helper()
	var st lab.Status
	if err := Lab.JSON(Within(t), &st, "status"); err != nil {
		t.Fatal(err)
	}
	pid := OwnWorker(st)
	if pid == 0 {
		t.Fatalf("workers are %+v", st.Workers)
	}
	return pid
}

// Kill kills a process with SIGKILL.
func Kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// Back waits until another worker than pid answers.
func Back(t *testing.T, pid int) {
	t.Helper()
	Until(t, "another worker", func() (bool, error) {
		var st lab.Status
		err := Lab.JSON(Within(t), &st, "status")
		now := OwnWorker(st)
		return err == nil && now != pid && now != 0, nil
	})
}

// NoWorker kills the stack's worker with -9 and keeps the supervisor from
// restarting it until restore is called.
func NoWorker(t *testing.T) (restore func()) {
	t.Helper()
	info, err := stack.Read(Lab.State)
	if err != nil {
		t.Fatal(err)
	}
	pid := WorkerPID(t)
	if err := syscall.Kill(info.Supervisor, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	goOn := func() {
		if err := syscall.Kill(info.Supervisor, syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(goOn)
	Kill(t, pid)
	return func() {
		t.Helper()
		goOn()
		Back(t, pid)
	}
}
