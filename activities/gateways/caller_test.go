package gateways

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// dialler starts a program that connects to a listener, below a shell, and returns the shell's process
// and the port of the program.
func dialler(t *testing.T, l net.Listener, user uint32) (pid int, port string) {
	t.Helper()
	return diallerThat(t, l, user, `exec 3<>/dev/tcp/127.0.0.1/$1; cat <&3`)
}

// diallerThat starts a bash that connects to port $1, and may do more. A script with arguments sends a
// line when it is ready.
func diallerThat(t *testing.T, l net.Listener, user uint32, script string, args ...string) (pid int, port string) {
	t.Helper()
	_, to, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", append([]string{"-c", `s=$1; shift; bash -c "$s" bash "$@"; :`, "sh", script, to}, args...)...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if user != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: user, Gid: user}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
	})
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if len(args) > 0 {
		if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	_, port, err = net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid, port
}

// whose runs the script for a connection.
func whose(t *testing.T, l net.Listener, port, dir string) string {
	t.Helper()
	return allWhose(t, l, []string{port}, dir)[0]
}

// allWhose runs the script once for several connections, and returns a line for each.
func allWhose(t *testing.T, l net.Listener, ports []string, dir string) []string {
	t.Helper()
	_, gate, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	hex := func(text string) string {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%04X", n)
	}
	words := []string{"-c", callerScript, "sh", hex(gate), dir}
	for _, port := range ports {
		words = append(words, hex(port))
	}
	out, err := exec.Command("sh", words...).CombinedOutput()
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if err != nil || len(lines) != len(ports) {
		t.Fatalf("%v: %s", err, out)
	}
	return lines
}

// begun records a process of a session as hostexec/process does.
func begun(t *testing.T, dir, name string, pid int, began string) {
	t.Helper()
	at := filepath.Join(dir, "proc", name)
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(at, "started"), fmt.Appendf(nil, "%d %s boot 1 2\n", pid, began), 0o600); err != nil {
		t.Fatal(err)
	}
}

func startOf(t *testing.T, pid int) string {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Scan()
	_, rest, _ := strings.Cut(in.Text(), ") ")
	return strings.Fields(rest)[19]
}

func TestOnlyProgramsOfTheSessionHaveItsWayOut(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	one, two := t.TempDir(), t.TempDir()
	mine, port := dialler(t, l, 0)
	begun(t, one, "app-server-1", 1<<22+1, "1") // which has ended
	begun(t, one, "app-server-2", mine, startOf(t, mine))
	begun(t, two, "app-server-1", mine, "12345") // an earlier process had this number
	if got := whose(t, l, port, one); got != "session" {
		t.Errorf("a program of the session: %s", got)
	}
	if got := whose(t, l, port, two); !strings.Contains(got, "none of the session's") {
		t.Errorf("a program of another session of the same user: %s", got)
	}
	if got := whose(t, l, port, filepath.Join(one, "nothing")); !strings.Contains(got, "none of the session's") {
		t.Errorf("without a session: %s", got)
	}
	if got := whose(t, l, "9", one); !strings.Contains(got, "no program") {
		t.Errorf("without a connection: %s", got)
	}
	if os.Getuid() == 0 { // another user's program, although it is below a process of the session
		other, port := dialler(t, l, 65534)
		begun(t, one, "app-server-3", other, startOf(t, other))
		if got := whose(t, l, port, one); got != "it is of user 65534" {
			t.Errorf("a program of another user: %s", got)
		}
	}
}

// A program chooses its own name and the names of the files that it opens.
func TestAProgramCannotPassForOneOfTheSession(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	mine, _ := dialler(t, l, 0)
	begun(t, dir, "app-server-1", mine, startOf(t, mine))
	for name, script := range map[string]string{
		"by its name":              `printf 'x) S %d\n' "$2" >/proc/$$/comm; exec 3<>/dev/tcp/127.0.0.1/$1; echo >&3; read x <&3`,
		"by a name without an end": `printf 'x) S %d\n' "$$" >/proc/$$/comm; exec 3<>/dev/tcp/127.0.0.1/$1; echo >&3; read x <&3`,
		"by a file":                `exec 5<>/dev/tcp/127.0.0.1/$1; at=$3/$(printf 'x\n/proc/%d/fd:\n -> %s' "$2" "$(readlink /proc/$$/fd/5)"); mkdir -p "$at"; exec 3<"$at"; echo >&5; read x <&5`,
	} {
		_, port := diallerThat(t, l, 0, script, strconv.Itoa(mine), t.TempDir())
		if got := whose(t, l, port, dir); !strings.Contains(got, "none of the session's") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestOneQuestionIsAboutSeveralConnections(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	first, port1 := dialler(t, l, 0)
	_, port2 := dialler(t, l, 0) // none of the session's
	third, port3 := dialler(t, l, 0)
	begun(t, dir, "app-server-1", first, startOf(t, first))
	begun(t, dir, "app-server-2", third, startOf(t, third))
	begun(t, dir, "app-server-3", 1, "") // a file that is not complete
	got := allWhose(t, l, []string{port1, "9", port2, port3}, dir)
	for i, want := range []string{"session", "no program", "none of the session's", "session"} {
		if !strings.Contains(got[i], want) {
			t.Errorf("connection %d: %s", i, got[i])
		}
	}
}

// The question grows with the connections, and Linux bounds an argument of a program to 128 KiB.
func TestAQuestionAboutManyConnectionsIsAnswered(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	mine, port := dialler(t, l, 0)
	begun(t, dir, "app-server-1", mine, startOf(t, mine))
	var ports []string
	for n := range 63 {
		ports = append(ports, strconv.Itoa(1+n))
	}
	got := allWhose(t, l, append(ports, port), dir)
	for i, said := range got[:63] {
		if !strings.Contains(said, "no program") {
			t.Errorf("connection %d: %s", i, said)
		}
	}
	if got[63] != "session" {
		t.Errorf("a program of the session: %s", got[63])
	}
}
