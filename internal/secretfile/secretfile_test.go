package secretfile

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

type file struct {
	mode     fs.FileMode
	uid, gid uint32
}

func (f file) Name() string       { return "secret" }
func (f file) Size() int64        { return 1 }
func (f file) Mode() fs.FileMode  { return f.mode }
func (f file) ModTime() time.Time { return time.Time{} }
func (f file) IsDir() bool        { return false }
func (f file) Sys() any           { return &syscall.Stat_t{Uid: f.uid, Gid: f.gid} }

func TestOnlyAFileOfItsOwnerOrOfRootForOurGroupKeepsASecret(t *testing.T) {
	ours := uint32(os.Getegid())
	theirs := uint32(61234)
	for _, c := range []struct {
		file
		exposed bool
	}{
		{file{0o600, 1000, theirs}, false},
		{file{0o400, 0, theirs}, false},
		{file{0o440, 0, theirs}, true},
		{file{0o444, 0, ours}, true},
		{file{0o460, 0, ours}, true},
		{file{0o640, 1000, ours}, true},
		{file{0o644, 0, theirs}, true},
		{file{0o440, 0, 0}, os.Geteuid() == 0 || inGroup(0)},
		{file{0o444, 0, 0}, true},
		{file{0o460, 0, 0}, true},
		{file{0o440, 0, ours}, ours == 0},
		{file{0o640, 0, ours}, ours == 0},
	} {
		if got := Exposed(c.file); got != c.exposed {
			t.Errorf("mode %04o of %d:%d: exposed %v", c.mode, c.uid, c.gid, got)
		}
	}
}

// TestASecretOfKubernetesIsUsable runs this test's program as a pod's process: another user
// in the group of the mounted file. It needs root.
func TestASecretOfKubernetesIsUsable(t *testing.T) {
	if path := os.Getenv("SECRETFILE_OF_POD"); path != "" {
		info, err := os.Stat(path)
		if err != nil || Exposed(info) {
			t.Fatalf("it is exposed (%v)", err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != "secret" {
			t.Fatalf("it reads %q (%v)", b, err)
		}
		return
	}
	if os.Getuid() != 0 {
		return // TestOnlyAFile... has the rule; this one needs a second user
	}
	dir, err := os.MkdirTemp("/var/tmp", "fairlead-secretfile-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	test, path := filepath.Join(dir, "test"), filepath.Join(dir, "key")
	for _, err := range []error{os.Chmod(dir, 0o755), os.WriteFile(test, program, 0o755), os.WriteFile(path, []byte("secret"), 0o440), os.Chown(path, 0, 61234)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	run := func(groups ...uint32) (string, error) {
		cmd := exec.Command(test, "-test.run", "^TestASecretOfKubernetesIsUsable$")
		cmd.Env = append(os.Environ(), "SECRETFILE_OF_POD="+path)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 61000, Gid: 61000, Groups: groups}}
		cmd.Dir = "/"
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run(61234); err != nil {
		t.Errorf("a process in the group: %v\n%s", err, out)
	}
	if out, err := run(); err == nil || !strings.Contains(out, "exposed") {
		t.Errorf("a process outside of the group: %v\n%s", err, out)
	}
}
