package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain runs the program if the environment says so.
func TestMain(m *testing.M) {
	if os.Getenv("SCRIPTEDMODEL_BE_THE_PROGRAM") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), "SCRIPTEDMODEL_BE_THE_PROGRAM=1")
	return cmd
}

func TestProgramSaysWhereItListensAndEndsWhenTold(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script.yaml")
	if err := os.WriteFile(script, []byte("rules: [{reply: hi}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := program(t, "--script", script)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var ready struct {
		URL     string `json:"url"`
		BaseURL string `json:"base_url"`
	}
	if err := json.Unmarshal(line, &ready); err != nil || ready.BaseURL != ready.URL+"/v1" {
		t.Fatalf("it printed %s: %v", line, err)
	}
	resp, err := http.Post(ready.BaseURL+"/responses", "application/json", strings.NewReader(
		`{"stream":true,"input":[{"type":"message","role":"user","content":"x"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || !strings.Contains(string(body), `"text":"hi"`) {
		t.Errorf("it answered %s, %v", body, err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func TestProgramRefusesABadScript(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script.yaml")
	if err := os.WriteFile(script, []byte("rules: [{name: bad}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := program(t, "--script", script).CombinedOutput()
	if err == nil || !strings.Contains(string(out), script+": rule bad: ") {
		t.Errorf("it said %s and ended with %v", out, err)
	}
}
