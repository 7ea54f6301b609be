package hostexec_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
)

// BenchmarkTree lists a tree of 20,000 files and 400 MB and reads one file in a
// hundred, as a snapshot does, and tells what rsync takes to bring a mirror up
// to date after as many changes.
func BenchmarkTree(b *testing.B) {
	dir, err := os.MkdirTemp("/dev/shm", "fl-tree-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	if err := hosttest.BigTree(dir+"/tree", 20_000, 400<<20); err != nil {
		b.Fatal(err)
	}
	b.Run("loopback", func(b *testing.B) { benchTree(b, dir, hosttest.Options{}) })
	b.Run("50ms", func(b *testing.B) { benchTree(b, dir, hosttest.Options{Behind: newLine(b)}) })
}

func benchTree(b *testing.B, dir string, opts hosttest.Options) {
	sshd := hosttest.StartSSHD(b, opts)
	pool := hostexec.NewPool(hostexec.PoolOptions{})
	b.Cleanup(func() { pool.Close() })
	h, err := pool.Host(sshd.Spec())
	if err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	mirror := dir + "/mirror"
	master := filepath.Join(b.TempDir(), "m")
	ssh := []string{"-p", fmt.Sprint(sshd.Spec().Port), "-i", sshd.Identity(), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", "ControlPath=" + master}
	at := sshd.User() + "@" + sshd.Spec().Address
	run := func(name string, args ...string) {
		if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
			b.Fatalf("%s: %v: %s", name, err, out)
		}
	}
	run("ssh", append(slices.Clone(ssh), "-M", "-N", "-f", at)...)
	b.Cleanup(func() { exec.Command("ssh", append(slices.Clone(ssh), "-O", "exit", at)...).Run() })
	rsync := func() {
		shell := "ssh"
		for _, word := range ssh {
			shell += " " + word
		}
		run("rsync", "-a", "-e", shell, at+":"+dir+"/tree/", mirror)
	}
	rsync()
	// The best of each: what else the machine does is not what is asked for.
	took := [3]time.Duration{time.Hour, time.Hour, time.Hour}
	n := 0
	for b.Loop() {
		changeTree(b, dir+"/tree", n)
		n++
		began := time.Now()
		rsync()
		took[0] = min(took[0], time.Since(began))
		began = time.Now()
		files, bytes, listed := captureTree(ctx, b, h, dir+"/tree", began)
		took[1] = min(took[1], time.Since(began))
		took[2] = min(took[2], listed)
		if files != 200 || bytes == 0 {
			b.Fatalf("%d files of %d bytes", files, bytes)
		}
	}
	for i, name := range []string{"rsync-ms", "capture-ms", "listing-ms"} {
		b.ReportMetric(float64(took[i].Milliseconds()), name)
	}
	b.ReportMetric(float64(took[1])/float64(took[0]), "of-rsync")
}

// changeTree makes one file in a hundred another one.
func changeTree(b *testing.B, dir string, round int) {
	for i := 0; i < 20_000; i += 100 {
		f, err := os.OpenFile(fmt.Sprintf("%s/src/pkg%03d/internal/file_%05d.go", dir, i/100, i), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			b.Fatal(err)
		}
		fmt.Fprintln(f, "round", round, time.Now())
		f.Close()
	}
}

func captureTree(ctx context.Context, b *testing.B, h hostexec.Host, dir string, began time.Time) (files int, bytes int64, listed time.Duration) {
	names := make(chan string, 1000)
	go func() {
		defer close(names)
		n := 0
		_, err := hostexec.ListTree(ctx, h, dir, hostexec.ListTreeOptions{}, func(e hostexec.TreeEntry) error {
			if e.Kind == hostexec.RegularFile {
				if n%100 == 0 {
					names <- e.Path
				}
				n++
			}
			return nil
		})
		if err != nil {
			b.Error(err)
		}
		listed = time.Since(began)
	}()
	err := hostexec.ReadTree(ctx, h, dir, func(yield func(string) bool) {
		for p := range names {
			if !yield(p) {
				return
			}
		}
	}, func(f *hostexec.TreeFile) error {
		files++
		n, err := io.Copy(io.Discard, f)
		bytes += n
		return err
	}, nil)
	if err != nil {
		b.Fatal(err)
	}
	return files, bytes, listed
}
