package hosts

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/fairlead/activities/codexpkg"
	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
)

// Activities are those on hosts that belong to no session.
type Activities struct{ Site *site.Site }

// New makes the activities of a worker.
func New(s *site.Site) *Activities { return &Activities{Site: s} }

// CheckHost finds out by trial what a host can do. It fails only if the host cannot be
// reached, and leaves nothing there.
func (h *Activities) CheckHost(ctx context.Context, in CheckHostInput) (protocol.CheckHostResult, error) {
	out, err := check(ctx, h.Site, in.Host)
	return out, kit.Failing{}.Failure(ctx, "check "+in.Host.Name, err)
}

func check(ctx context.Context, s *site.Site, spec protocol.HostSpec) (protocol.CheckHostResult, error) {
	c := &checkup{Result: protocol.CheckHostResult{Facts: map[string]string{}, CheckedAt: s.Now().UTC()}}
	h, err := s.Host(spec)
	if err != nil {
		return c.Result, err
	}
	root, err := hostexec.Root(ctx, h, spec)
	if err != nil {
		return c.Result, err
	}
	dir := path.Join(root, "check", strings.ToLower(rand.Text()[:12]))
	facts, err := lookAround(ctx, s, h, root, dir)
	defer func() {
		undo, cancel := kit.Afterwards(ctx)
		defer cancel()
		if err := hostexec.RemoveTree(undo, h, dir, root, nil); err != nil {
			s.Logger.Warn("a check left its folder behind", "host", spec.Name, "folder", dir, "err", err)
		}
	}()
	if err != nil {
		return c.Result, err
	}
	c.machine(facts)
	c.programs(facts)
	c.root(facts, root)
	c.clock(facts)
	if err := c.forwards(ctx, h, dir); err != nil {
		return c.Result, err
	}
	if err := checkCodex(ctx, s, c, h, spec, root, dir, facts["home_ok"] == "y"); err != nil {
		return c.Result, err
	}
	c.Result.OK = !slices.ContainsFunc(c.Result.Checks, func(k protocol.Check) bool { return k.Required && !k.OK })
	return c.Result, nil
}

type checkup struct{ Result protocol.CheckHostResult }

func (c *checkup) add(name string, ok, required bool, detail, hint string) {
	if ok {
		hint = ""
	}
	c.Result.Checks = append(c.Result.Checks, protocol.Check{Name: name, OK: ok, Required: required, Detail: detail, Hint: hint})
}

// Without the useful programs some steps are slower or less reliable.
var (
	neededPrograms = []string{"cat", "chmod", "cp", "df", "find", "head", "kill", "ln", "ls", "mkdir", "mkfifo", "mv", "readlink", "rm", "rmdir", "sed", "sleep", "tail", "tar", "tr", "uname", "wc"}
	usefulPrograms = []string{"awk", "base64", "fallocate", "flock", "grep", "ps", "sha256sum", "stat", "sync"}
)

const aroundScript = `umask 077
root=$1 dir=$2 needed=$3 useful=$4
echo "os $(uname -s)"
echo "arch $(uname -m)"
echo "kernel $(uname -r)"
echo "user $(id -un 2>/dev/null || echo "$USER")"
echo "shell ${SHELL:-unknown}"
echo "cpus $(getconf _NPROCESSORS_ONLN 2>/dev/null || nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null)"
if [ -r /proc/meminfo ]; then
	while read -r k v x; do case $k in MemTotal:) echo "memory_kb $v" ;; MemAvailable:) echo "available_kb $v" ;; esac; done </proc/meminfo
else
	b=$(sysctl -n hw.memsize 2>/dev/null) && echo "memory_kb $((b / 1024))"
fi
libc=$(getconf GNU_LIBC_VERSION 2>/dev/null) || libc=
if [ -z "$libc" ]; then
	for f in /lib/ld-musl-*; do [ ! -e "$f" ] || libc=musl; done
fi
echo "libc ${libc:-unknown}"
missing= lacking=
for p in $needed; do command -v "$p" >/dev/null 2>&1 || missing="$missing $p"; done
for p in $useful; do command -v "$p" >/dev/null 2>&1 || lacking="$lacking $p"; done
echo "missing$missing"
echo "lacking$lacking"
new=
for p in setsid perl python3; do command -v "$p" >/dev/null 2>&1 && new=$p && break; done
echo "session $new"
case $(tail --version 2>/dev/null) in *'GNU coreutils'*) echo "tail gnu" ;; *) echo "tail other" ;; esac
[ ! -r /proc/self/stat ] || echo "proc y"
if why=$(mkdir -p -- "$dir/sessions" 2>&1); then
	echo "home_ok y"
	if why=$(mkfifo -- "$dir/fifo" 2>&1); then echo "fifo_ok y"; else echo "fifo_why $why" | head -n 1; fi
	echo 'echo ran' >"$dir/run" && chmod 700 "$dir/run"
	[ "$("$dir/run" 2>/dev/null)" = ran ] && echo "exec_ok y"
	echo "free $(df -Pk -- "$dir" 2>/dev/null | sed -n '2s/^[^ ]* *[^ ]* *[^ ]* *\([0-9]*\).*/\1/p')"
else
	echo "home_why $why" | head -n 1
fi
if grep -q KillUserProcesses=yes /etc/systemd/logind.conf /etc/systemd/logind.conf.d/*.conf 2>/dev/null; then
	echo "kills y"
fi
echo "date $(date +%s)"`

// maxFact bounds a fact that a host states, in bytes.
const maxFact = 1 << 10

func lookAround(ctx context.Context, s *site.Site, h hostexec.Host, root, dir string) (map[string]string, error) {
	if _, err := h.Run(ctx, hostexec.Command{Script: ":"}); err != nil {
		return nil, err // to connect before the time is measured
	}
	before := s.Now()
	res, err := h.Run(ctx, hostexec.Command{
		Script: aroundScript,
		Args:   []string{root, dir, strings.Join(neededPrograms, " "), strings.Join(usefulPrograms, " ")},
	})
	if err != nil {
		return nil, fmt.Errorf("look around: %w", err)
	}
	after := s.Now()
	facts := map[string]string{}
	for line := range strings.Lines(string(res.Stdout)) {
		k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		facts[k] = v[:min(len(v), maxFact)]
	}
	if sec, err := strconv.ParseInt(facts["date"], 10, 64); err == nil {
		// the script reads the date last, in whole seconds
		host := time.Unix(sec, 0)
		switch {
		case host.After(after):
			facts["skew"] = host.Sub(after).String()
		case host.Add(time.Second).Before(before):
			facts["skew"] = host.Add(time.Second).Sub(before).String()
		default:
			facts["skew"] = "0s"
		}
	}
	return facts, nil
}

func (c *checkup) machine(f map[string]string) {
	for _, k := range []string{"os", "arch", "libc", "cpus", "shell", "user", "kernel"} {
		c.Result.Facts[k] = f[k]
	}
	_, err := codexpkg.TargetOf(f["os"], f["arch"])
	c.add("system", err == nil, true, fmt.Sprintf("%s %s, %s", f["os"], f["arch"], f["libc"]), "codex runs on Linux and macOS on x86_64 or arm64 alone")
	kb, _ := strconv.ParseInt(f["memory_kb"], 10, 64)
	free, _ := strconv.ParseInt(f["available_kb"], 10, 64)
	c.Result.Facts["memory_mb"] = strconv.FormatInt(kb>>10, 10)
	enough := free == 0 || free >= 512<<10
	c.add("memory", enough, false, fmt.Sprintf("%d MiB, %d MiB available, %s processors", kb>>10, free>>10, f["cpus"]), "a session takes about 200 MiB")
}

func (c *checkup) programs(f map[string]string) {
	missing := strings.TrimSpace(f["missing"])
	detail := "all there"
	if lacking := strings.TrimSpace(f["lacking"]); lacking != "" {
		detail = "all required ones are there; optional ones that are missing: " + lacking
	}
	if missing != "" {
		detail = "missing: " + missing
	}
	c.add("programs", missing == "", true, detail, "install them")
	ok := f["session"] != "" && (f["proc"] == "y" || f["os"] != "Linux")
	detail = "processes outlive their connection by " + f["session"]
	if !ok {
		detail = "no process can outlive its connection: setsid, perl or python3 is needed, and /proc"
	} else if f["tail"] != "gnu" {
		detail += "; tail is not GNU's, the journal is polled"
	}
	c.add("processes", ok, true, detail, "install util-linux (setsid)")
	if f["kills"] == "y" {
		c.add("logout", false, false, "systemd-logind ends a user's processes at logout (KillUserProcesses=yes)", "run `loginctl enable-linger` for the user")
	}
}

func (c *checkup) root(f map[string]string, root string) {
	switch {
	case f["home_ok"] != "y":
		c.add("root", false, true, fmt.Sprintf("%s cannot be written: %s", root, f["home_why"]), "make it writable for the user, or choose another with --root")
		return
	case f["fifo_ok"] != "y":
		c.add("root", false, true, fmt.Sprintf("no FIFO can be made in %s: %s", root, f["fifo_why"]), "choose a root on a local file system with --root")
	case f["exec_ok"] != "y":
		c.add("root", false, true, root+" is mounted noexec", "choose another one with --root")
	default:
		c.add("root", true, true, root, "")
	}
	kb, err := strconv.ParseInt(f["free"], 10, 64)
	if err != nil {
		c.add("disk", true, false, "df does not say how much is free", "")
		return
	}
	c.Result.Facts["disk_free_mb"] = strconv.FormatInt(kb>>10, 10)
	c.add("disk", kb<<10 >= folder.SessionRoom, true, fmt.Sprintf("%d MiB free", kb>>10),
		fmt.Sprintf("free some space below %s: a session needs %d MiB, codex 360 MiB once", root, folder.SessionRoom>>20))
}

const maxSkew = 30 * time.Second

func (c *checkup) clock(f map[string]string) {
	skew, err := time.ParseDuration(f["skew"])
	if err != nil {
		c.add("clock", false, false, "the host does not say what time it is", "")
		return
	}
	skew = skew.Round(time.Second)
	c.Result.Facts["clock_skew"] = skew.String()
	c.add("clock", skew.Abs() <= maxSkew, false, fmt.Sprintf("%v apart from the worker's", skew), "set up time synchronisation (NTP)")
}

// forwards says which forwards sshd permits. Sessions need none of them, unless the host
// shall hold no credential.
func (c *checkup) forwards(ctx context.Context, h hostexec.Host, dir string) error {
	may, err := hostexec.ProbeForwarding(ctx, h, dir)
	if err != nil {
		return err
	}
	for _, k := range []struct {
		name, use string
		err       error
	}{
		{"forward", "programs on the host can reach the worker through a port of its loopback address", may.Remote},
		{"socket", "programs on the host can reach the worker through a socket", may.Socket},
		{"tunnel", "the worker can connect to ports of the host", may.Local},
	} {
		if k.err == nil {
			c.add(k.name, true, false, k.use, "")
			continue
		}
		detail, hint, _ := strings.Cut(strings.TrimSuffix(k.err.Error(), ")"), " (")
		c.add(k.name, false, false, detail, hint)
	}
	return nil
}

func asCheck(err error) (detail, hint string, mine bool) {
	var typed *kit.TypedError
	if errors.As(err, &typed) {
		return typed.Error(), typed.Hint, true
	}
	return "", "", false
}
