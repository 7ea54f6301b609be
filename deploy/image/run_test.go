package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"fairlead.dev/fairlead/deploy/internal/programs"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/realparts"
	"fairlead.dev/fairlead/internal/store"
)

// unpack unpacks an image as a container runtime does.
func unpack(t *testing.T, image v1.Image) (root string) {
	t.Helper()
	root = t.TempDir()
	stream := mutate.Extract(image)
	defer stream.Close()
	for r := tar.NewReader(stream); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return root
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := unpackOne(filepath.Join(root, filepath.Clean("/"+h.Name)), h, r); err != nil {
			t.Fatalf("unpack %s: %v", h.Name, err)
		}
	}
}

func unpackOne(at string, h *tar.Header, content io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
	case tar.TypeSymlink:
		return os.Symlink(h.Linkname, at)
	case tar.TypeReg:
		f, err := os.Create(at)
		if err != nil {
			return err
		}
		if _, err := io.Copy(f, content); err != nil {
			return errors.Join(err, f.Close())
		}
		if err := f.Close(); err != nil {
			return err
		}
	default:
		return fmt.Errorf("it is of type %q", h.Typeflag)
	}
	if os.Getuid() == 0 {
		if err := os.Lchown(at, h.Uid, h.Gid); err != nil {
			return err
		}
	}
	return os.Chmod(at, h.FileInfo().Mode())
}

// container runs a program in an image as Kubernetes does with readOnlyRootFilesystem,
// runAsNonRoot and volumes for the config, the state and /tmp. $libraries are those of this
// machine, for programs that are not static.
const container = `set -e
root=$1 config=$2 state=$3 libraries=$4 user=$5; shift 5
mkdir -p "$root/proc" "$root/dev"
mount --bind "$root" "$root"
for dir in $libraries; do
	mkdir -p "$root$dir"
	mount --bind "$dir" "$root$dir"
done
mount --bind "$config" "$root/etc/fairlead"
mount -o remount,ro,bind "$root/etc/fairlead"
mount --bind "$state" "$root/var/lib/fairlead"
mount -t tmpfs -o mode=1777 none "$root/tmp"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -o remount,ro,bind "$root"
exec chroot --userspec="$user" --groups= "$root" "$@"`

// A box is an unpacked image with its volumes.
type box struct {
	root, config, state, libraries string
	user                           string
	env, entrypoint                []string
}

func newBox(t *testing.T) box {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("this test mounts file systems: run it as root")
	}
	dir := *real
	if dir == "" {
		dir, _ = made(t, built(t))
	}
	_, image := imageOf(t, dir)
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	b := box{root: unpack(t, image), config: t.TempDir(), state: t.TempDir(), user: config.Config.User, env: config.Config.Env, entrypoint: config.Config.Entrypoint}
	if err := programs.Static(filepath.Join(b.root, "usr/bin/fairlead-worker")); err != nil {
		if *real != "" {
			t.Error(err)
		}
		for _, dir := range []string{"/lib", "/lib64", "/usr/lib"} {
			if _, err := os.Stat(dir); err == nil {
				b.libraries += dir + " "
			}
		}
	}
	if err := os.Chown(b.state, user, user); err != nil {
		t.Fatal(err)
	}
	return b
}

// secret makes a secret as Kubernetes mounts it for the pod's group.
func (b box) secret(t *testing.T, name string) {
	t.Helper()
	file := filepath.Join(b.config, name)
	if err := errors.Join(os.Chown(file, 0, user), os.Chmod(file, 0o440)); err != nil {
		t.Fatal(err)
	}
}

func (b box) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("unshare", append([]string{"--mount", "sh", "-c", container, "sh", b.root, b.config, b.state, b.libraries, b.user}, args...)...)
	cmd.Env = append([]string{}, b.env...)
	for i, word := range cmd.Env {
		if strings.HasPrefix(word, "PATH=") { // that of the script; the image's own begins the same programs
			cmd.Env[i] = word + ":/usr/local/sbin:/usr/sbin:/sbin:/bin"
		}
	}
	return cmd
}

// A worker runs from the image alone: as another user than root, with a root that nobody can
// write to, and secrets as Kubernetes mounts them.
func TestAWorkerRunsInTheImageWithAReadOnlyRoot(t *testing.T) {
	realparts.NotShort(t)
	b := newBox(t)
	temporal, metrics := port(t), port(t)
	background(t, exec.Command(realparts.DevServer(t), "server", "start-dev", "--headless", "--port", temporal, "--db-filename", filepath.Join(t.TempDir(), "t.db")))
	if _, err := store.GenerateIdentity(filepath.Join(b.config, "store.identity")); err != nil {
		t.Fatal(err)
	}
	b.secret(t, "store.identity")
	conf := fmt.Sprintf(`authority: local
temporal: {address: "127.0.0.1:%s"}
store: {url: "file:///var/lib/fairlead/store", identity: store.identity}
api: {listen: "unix:///var/lib/fairlead/api.sock"}
codex: {source: /opt/fairlead/codex/%s}
metrics: {listen: "127.0.0.1:%s"}
`, temporal, programs.Own().Codex(), metrics)
	if err := errors.Join(os.WriteFile(filepath.Join(b.config, "worker.yaml"), []byte(conf), 0o644), os.Chmod(b.config, 0o755)); err != nil {
		t.Fatal(err)
	}
	worker := background(t, b.command(t, b.entrypoint...))
	for end := time.Now().Add(5 * time.Minute); !ready(t, metrics); time.Sleep(100 * time.Millisecond) {
		if worker.ended() || time.Now().After(end) {
			t.Fatal("the worker does not become ready")
		}
	}
	proc := filepath.Join("/proc", strconv.Itoa(worker.Process.Pid))
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil || !strings.Contains(string(status), fmt.Sprintf("Uid:\t%d\t%d\t%d\t%d\n", user, user, user, user)) {
		t.Errorf("it does not run as %d (%v):\n%s", user, err, status)
	}
	mounts, err := os.ReadFile(filepath.Join(proc, "mountinfo"))
	if err != nil || !strings.Contains(string(mounts), " / ro,") {
		t.Errorf("its root is not read-only (%v):\n%s", err, mounts)
	}
	if out, err := b.command(t, "/usr/bin/fairlead", "--address", "127.0.0.1:"+temporal, "cluster", "check").CombinedOutput(); err != nil {
		t.Errorf("fairlead does not run there: %v\n%s", err, out)
	}
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-worker.done
	if code := worker.ProcessState.ExitCode(); code != 0 {
		t.Errorf("at SIGTERM it ended with %d", code)
	}
}

func ready(t *testing.T, port string) bool {
	t.Helper()
	ask := http.Client{Timeout: 30 * time.Second}
	res, err := ask.Get("http://127.0.0.1:" + port + "/readyz")
	if err != nil {
		return false
	}
	defer res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// port returns a port that no test of another package takes meanwhile.
func port(t *testing.T) string {
	t.Helper()
	p, err := hosttest.TakePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Release() })
	return strconv.Itoa(p.Number)
}

// A process is a program that a test started.
type process struct {
	*exec.Cmd
	done chan struct{}
}

func background(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	log, err := os.CreateTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd, make(chan struct{})}
	go func() { defer close(p.done); _ = cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-p.done
		if text, err := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("%s (%v): %s", filepath.Base(cmd.Path), err, text)
		}
		log.Close()
	})
	return p
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
