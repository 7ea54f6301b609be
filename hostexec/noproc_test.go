package hostexec_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
)

// noProc is a host without /proc, like macOS and the BSDs.
type noProc struct{ otherShell }

func (h *noProc) wrap(c hostexec.Command) hostexec.Command {
	c = h.otherShell.wrap(c)
	c.Script = `p=$1; shift; s=$1; shift
exec unshare -m sh -c 'mount -t tmpfs none /proc || exit 9; PATH=$1; s=$2; shift 2; exec sh -c "$s" sh "$@"' sh "$p" "$s" "$@"`
	return c
}

func (h *noProc) Run(ctx context.Context, c hostexec.Command) (hostexec.Result, error) {
	return h.Host.Run(ctx, h.wrap(c))
}

func (h *noProc) Start(ctx context.Context, c hostexec.Command) (hostexec.Stream, error) {
	return h.Host.Start(ctx, h.wrap(c))
}

func TestAHostWithoutProcSaysWhatItLacks(t *testing.T) {
	links := make(map[string]string)
	for _, name := range strings.Fields("sh cat ls tail mkdir mkfifo rm rmdir mv ln readlink grep sleep sed find tr wc chmod dd sha256sum head") {
		links[name] = lookPath(t, name)
	}
	unfenced := &noProc{otherShell{localHost(t), farm(t, links)}}
	links["flock"] = lookPath(t, "flock")
	fenced := &noProc{otherShell{localHost(t), farm(t, links)}}
	s := newScene(t, localHost(t))

	// Commands and files work. If the host can lock, they also work under a fence.
	if res, err := unfenced.Run(t.Context(), hostexec.Command{Script: `[ ! -e /proc/self ] && echo hello`}); err != nil || string(res.Stdout) != "hello\n" {
		t.Fatalf("%q, %v (unshare -m needs root)", res.Stdout, err)
	}
	if err := hostexec.WriteFile(t.Context(), fenced, s.dir+"/file", []byte("x"), 0o600, &s.fence); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(s.dir + "/file"); string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
	former := hostexec.Fence{Dir: s.dir}
	if err := hostexec.WriteFile(t.Context(), fenced, s.dir+"/file", []byte("y"), 0o600, &former); !errors.Is(err, hostexec.ErrFenced) {
		t.Errorf("a former holder: %v", err)
	}

	// Calls that are impossible fail at once, with an error that says why.
	_, locked := unfenced.Run(t.Context(), hostexec.Command{Script: `: >"$1/ran"`, Args: []string{s.dir}, Fence: &s.fence})
	_, started := process.Start(t.Context(), fenced, s.spec("/bin/true"))
	_, reaped := process.Reap(t.Context(), fenced, s.dir, s.mark, s.fence)
	for what, err := range map[string]error{"fence": locked, "start": started, "reap": reaped} {
		if !errors.Is(err, hostexec.ErrUnsupported) || !strings.Contains(err.Error(), "/proc") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := os.Lstat(s.dir + "/ran"); err == nil {
		t.Error("a script ran though nobody could lock")
	}
}
