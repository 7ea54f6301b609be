package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"fairlead.dev/fairlead/internal/realparts"
	"fairlead.dev/fairlead/internal/stack"
)

// TestStack runs scripts with a real server and a real worker.
func TestStack(t *testing.T) {
	codex := realparts.Codex(t)
	libexec := filepath.Dir(realparts.Worker(t)) // the server is beside it, as ctl expects it
	realparts.DevServer(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/stack",
		Setup: func(env *testscript.Env) error {
			if err := alone(env); err != nil {
				return err
			}
			env.Setenv("FAIRLEAD_LIBEXEC", libexec)
			env.Setenv("CODEX", codex)
			dir := filepath.Join(env.WorkDir, "st")
			deep := filepath.Join(env.WorkDir, "a-state-folder", "whose-name-is-longer", "than-a-unix-socket-may-be-on-linux", "so-it-gets-another-place")
			env.Setenv("DEEP", deep)
			s := &stackScript{dir: dir, pids: map[int]stack.Process{}}
			env.Values["stack"] = s
			env.Defer(func() {
				s.remember()
				// Stop the processes that a failed script left running. A script that
				// passed leaves none.
				for _, dir := range []string{dir, deep, filepath.Join(env.WorkDir, "st2"), filepath.Join(env.WorkDir, "st3")} {
					_, _ = stack.Down(context.Background(), dir)
				}
			})
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "kill9": kill9, "revives": revives, "gone": gone, "sameaddress": sameAddress, "up": isUp,
		},
	})
}

// A stackScript is the state of a script's own commands.
type stackScript struct {
	dir     string
	address string
	pids    map[int]stack.Process
}

func (s *stackScript) remember() *stack.Info {
	info, err := stack.Read(s.dir)
	if err != nil {
		return nil
	}
	for _, p := range info.Children {
		s.pids[p.PID] = p
	}
	s.pids[info.Supervisor] = stack.Process{Name: "supervisor", PID: info.Supervisor}
	return info
}

func script(ts *testscript.TestScript) (*stackScript, *stack.Info) {
	s := ts.Value("stack").(*stackScript)
	info := s.remember()
	if info == nil {
		ts.Fatalf("no stack in %s", s.dir)
	}
	return s, info
}

func pidOf(info *stack.Info, name string) int {
	for _, w := range info.Workers {
		if w.Name == name {
			return w.PID
		}
	}
	return map[string]int{"temporal": info.Temporal.PID, "supervisor": info.Supervisor}[name]
}

// kill9 NAME kills temporal, worker or supervisor and waits until it is gone.
func kill9(ts *testscript.TestScript, neg bool, args []string) {
	_, info := script(ts)
	pid := pidOf(info, args[0])
	p := stack.Process{Name: args[0], PID: pid}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		ts.Fatalf("kill %s: %v", args[0], err)
	}
	until(ts, args[0]+" is gone", func() bool { return !p.Alive() })
}

// revives NAME waits until a process with another pid replaces it and the whole stack
// answers.
func revives(ts *testscript.TestScript, neg bool, args []string) {
	s := ts.Value("stack").(*stackScript)
	until(ts, args[0]+" is back", func() bool {
		info := s.remember()
		if info == nil {
			return false
		}
		_, before := s.pids[pidOf(info, args[0])]
		return before && ready(ts, s)
	})
}

// A shownStatus has the fields that the scripts read of `ctl status -o json`.
type shownStatus struct {
	Temporal struct {
		Address string `json:"address"`
		PID     int    `json:"pid"`
	} `json:"temporal"`
	Workers []shownWorker `json:"workers"`
	Store   struct {
		ID string `json:"id"`
	} `json:"store"`
	Versions struct {
		Temporal string `json:"temporal"`
		Codex    string `json:"codex"`
	} `json:"versions"`
}

type shownWorker struct {
	PID        int      `json:"pid"`
	Ready      bool     `json:"ready"`
	TaskQueues []string `json:"task_queues"`
}

// ready reports whether status shows the server and every worker as ready, each with the
// pid in stack.json.
func ready(ts *testscript.TestScript, s *stackScript) bool {
	info := s.remember()
	if info == nil || info.Store.ID == "" || ts.Exec("ctl", "status", "--state", s.dir, "-o", "json") != nil {
		return false
	}
	var v shownStatus
	if err := json.Unmarshal([]byte(ts.ReadFile("stdout")), &v); err != nil {
		ts.Fatalf("status is not JSON: %v", err)
	}
	ok := v.Temporal.PID == info.Temporal.PID && v.Temporal.Address == info.Temporal.Address && v.Store.ID != "" && v.Versions.Temporal != "" && v.Versions.Codex != ""
	for _, want := range info.Workers {
		ok = ok && slices.ContainsFunc(v.Workers, func(w shownWorker) bool {
			p := stack.Process{PID: w.PID}
			return w.Ready && w.PID == want.PID && w.PID > 0 && len(w.TaskQueues) == 1 && p.Alive()
		})
	}
	return ok && len(v.Workers) == len(info.Workers)
}

func isUp(ts *testscript.TestScript, neg bool, args []string) {
	s := ts.Value("stack").(*stackScript)
	until(ts, "the stack answers", func() bool { return ready(ts, s) })
}

// sameaddress checks that the server's address is the same as at the previous call.
func sameAddress(ts *testscript.TestScript, neg bool, args []string) {
	s, info := script(ts)
	if s.address != "" && s.address != info.Temporal.Address {
		ts.Fatalf("the server is at %s and was at %s", info.Temporal.Address, s.address)
	}
	s.address = info.Temporal.Address
}

// gone checks that no process that the stack ever had still runs.
func gone(ts *testscript.TestScript, neg bool, args []string) {
	s := ts.Value("stack").(*stackScript)
	if len(s.pids) < 3 {
		ts.Fatalf("only %d processes were ever seen", len(s.pids))
	}
	for _, p := range s.pids {
		if p.Alive() {
			ts.Fatalf("%s (pid %d) still runs", p.Name, p.PID)
		}
	}
	if _, err := os.Stat(filepath.Join(s.dir, "stack.json")); err == nil {
		ts.Fatalf("stack.json is still there")
	}
}

func until(ts *testscript.TestScript, what string, ok func() bool) {
	for end := time.Now().Add(5 * time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			ts.Fatalf("waited in vain: %s", what)
		}
	}
}
