package hostexec_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"testing"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	treepkg "fairlead.dev/fairlead/hostexec/tree"
)

// writeBig writes a folder without write permission, and in it a file that ends in a
// megabyte of zeros.
func writeBig(w *treepkg.Writer, size int64, sparse bool) error {
	if err := w.Add(treepkg.Entry{Path: "shut", Kind: treepkg.Folder, Mode: 0o555}); err != nil {
		return err
	}
	f, err := w.File(treepkg.Entry{Path: "shut/big", Kind: treepkg.RegularFile, Mode: 0o644, Size: size}, sparse)
	if err != nil {
		return err
	}
	if _, err := f.Write(bytes.Repeat([]byte("data"), int(size-1<<20)/4)); err != nil {
		return err
	}
	if err := f.Hole(1 << 20); err != nil {
		return err
	}
	return f.Close()
}

func TestAFullDiskHasANameAndKeepsNoLeftovers(t *testing.T) {
	t.Parallel()
	disk := t.TempDir() + "/disk"
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	unmount, err := hosttest.SmallDisk(t.Context(), disk, 512<<10)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unmount(); err != nil {
			t.Error(err)
		}
	})
	big := make([]byte, 2<<20)
	sum := sha256.Sum256(big)
	var tree bytes.Buffer
	w := tar.NewWriter(&tree)
	w.WriteHeader(&tar.Header{Name: "big", Mode: 0o644, Size: int64(len(big))})
	w.Write(big)
	w.Close()

	s := hosttest.StartSSHD(t, hosttest.Options{})
	for name, h := range map[string]hostexec.Host{
		"local": localHost(t), "sshd": newHost(t, s.Spec()), "busybox": &otherShell{localHost(t), busybox(t)},
	} {
		for what, err := range map[string]error{
			"write":    hostexec.WriteFile(t.Context(), h, disk+"/file", big, 0o600, nil),
			"upload":   hostexec.Upload(t.Context(), h, disk+"/file", bytes.NewReader(big), int64(len(big)), hex.EncodeToString(sum[:]), 0o600, nil),
			"put tree": treepkg.Put(t.Context(), h, disk+"/tree", bytes.NewReader(tree.Bytes()), nil),
			"write tree": treepkg.Write(t.Context(), h, disk+"/tree", treepkg.WriteOptions{}, func(w *treepkg.Writer) error {
				return writeBig(w, 20<<20, false)
			}),
			"write holes": treepkg.Write(t.Context(), h, disk+"/tree", treepkg.WriteOptions{}, func(w *treepkg.Writer) error {
				return writeBig(w, 20<<20, true)
			}),
		} {
			if !errors.Is(err, hostexec.ErrNoSpace) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
		if left, err := os.ReadDir(disk); err != nil || len(left) > 0 {
			t.Errorf("%s: left %v, %v", name, left, err)
		}
		// No byte is left, not even for an epoch.
		if _, err := h.Run(t.Context(), hostexec.Command{Script: `mkdir "$1/s"; cat /dev/zero >"$1/fill" 2>/dev/null || :`, Args: []string{disk}}); err != nil {
			t.Fatal(err)
		}
		f := &hostexec.Fence{Dir: disk + "/s", Epoch: hostexec.Epoch{Pump: 1}}
		if _, err := h.Run(t.Context(), hostexec.Command{Script: `: >"$1/s/ran"`, Args: []string{disk}, Fence: f}); !errors.Is(err, hostexec.ErrNoSpace) {
			t.Errorf("%s: fence: %v", name, err)
		}
		if _, err := os.Stat(disk + "/s/ran"); err == nil {
			t.Errorf("%s: it ran although its epoch was not recorded", name)
		}
		for _, name := range []string{"/fill", "/s"} {
			if err := hostexec.RemoveTree(t.Context(), h, disk+name, disk, nil); err != nil {
				t.Error(err)
			}
		}
	}
}
