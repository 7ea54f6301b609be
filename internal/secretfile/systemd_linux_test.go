package secretfile

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// readACL is an access control list (acl(5), system.posix_acl_access): root and a user may
// read, nobody else may do anything.
func readACL(uid uint32) []byte {
	acl := binary.LittleEndian.AppendUint32(nil, 2) // the version
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{0x01, 4, ^uint32(0)}, {0x02, 4, uid}, {0x04, 0, ^uint32(0)}, {0x10, 4, ^uint32(0)}, {0x20, 0, ^uint32(0)}} {
		acl = binary.LittleEndian.AppendUint16(acl, e.tag)
		acl = binary.LittleEndian.AppendUint16(acl, e.perm)
		acl = binary.LittleEndian.AppendUint32(acl, e.id)
	}
	return acl
}

// TestACredentialOfSystemdIsUsable makes a file as systemd's LoadCredential does, and runs this
// test's program as the service's user. It needs root.
func TestACredentialOfSystemdIsUsable(t *testing.T) {
	if path := os.Getenv("SECRETFILE_OF_SERVICE"); path != "" {
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
	const service = 61000
	test, path := filepath.Join(dir, "test"), filepath.Join(dir, "key")
	for _, err := range []error{os.Chmod(dir, 0o755), os.WriteFile(test, program, 0o755), os.WriteFile(path, []byte("secret"), 0o440), os.Chown(path, 0, 0)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	run := func(uid, gid uint32) (string, error) {
		cmd := exec.Command(test, "-test.run", "^TestACredentialOfSystemdIsUsable$")
		cmd.Env = append(os.Environ(), "SECRETFILE_OF_SERVICE="+path)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
		cmd.Dir = "/"
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	// What the rule takes of root's group nobody can read without a list.
	if out, err := run(service, service); err == nil || !strings.Contains(out, "permission denied") {
		t.Errorf("without a list: %v\n%s", err, out)
	}
	switch err := syscall.Setxattr(path, "system.posix_acl_access", readACL(service), 0); {
	case errors.Is(err, syscall.ENOTSUP):
		t.Logf("the disk of %s has no access control lists: the rest of this test is of those", dir)
		return
	case err != nil:
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o440 {
		t.Fatalf("with a list its mode is %v (%v)", info.Mode(), err)
	}
	if out, err := run(service, service); err != nil {
		t.Errorf("the service: %v\n%s", err, out)
	}
	if out, err := run(service+1, service+1); err == nil || !strings.Contains(out, "permission denied") {
		t.Errorf("another user: %v\n%s", err, out)
	}
	if out, err := run(service, 0); err == nil || !strings.Contains(out, "exposed") {
		t.Errorf("a process in root's group: %v\n%s", err, out)
	}
}
