package activities

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// reachable answers HELLO at an address of this machine.
func reachable(t *testing.T, ip string) string {
	t.Helper()
	l, err := net.Listen("tcp", ip+":0")
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "HELLO") })}}
	s.Start()
	t.Cleanup(s.Close)
	return l.Addr().String()
}

// confinedBed returns a host whose root is not below /tmp, where commands may write
// anyway, and a folder beside the root.
func confinedBed(t *testing.T) (*bed, string) {
	t.Helper()
	b := newBed(t, readyHost(t))
	dir := strings.TrimSpace(b.sh(`mkdir -p "$HOME/beside/read" "$HOME/beside/write" "$HOME/beside/out" && echo secret >"$HOME/beside/read/f" && cd "$HOME/beside" && pwd -P`))
	return b, dir
}

func (k *talk) commandOutput() string {
	k.t.Helper()
	out := ""
	for _, e := range readAll(k.t, k.store, k.claim.Session, 0) {
		if e.Type == protocol.EntryCommand {
			out += e.Text
		}
	}
	return out
}

func TestSessionIsConfinedAsItAskedInTheRealCodex(t *testing.T) {
	b, dir := confinedBed(t)
	allowed, denied := reachable(t, "127.0.0.1"), reachable(t, "127.0.0.2")
	model := scriptedmodel.Serve(t, fmt.Sprintf(`
rules:
  - steps:
      - - shell: |
            for d in read write out; do (echo x >%[1]s/$d/new) 2>/dev/null && echo "wrote $d"; done
            cat %[1]s/read/f
            curl -s -m 5 http://%[2]s/; curl -s -m 5 http://%[3]s/; curl -s -m 5 --noproxy '*' http://%[3]s/
            python3 -c 'import socket,sys; socket.create_connection(("127.0.0.1", int(sys.argv[1])), 3); print("REACHED")' %[4]s 2>&1 | tail -n 1
      - say: done
`, dir, allowed, denied, strings.TrimPrefix(allowed, "127.0.0.1:")))
	in := places.PrepareSessionInput{Sandbox: "workspace-write", Seed: b.plantable(model), Confine: hosts.Confinement{
		Read: []string{filepath.Join(dir, "read")}, Write: []string{filepath.Join(dir, "write")}, Network: protocol.NetworkHosts, Hosts: []string{"127.0.0.1"},
	}}
	k := b.preparedAs("confined", in)
	k.start()
	r := k.pump(conversation.TurnEnded, k.message("try it"))
	if r.Pump.Turn.Status != "completed" {
		t.Fatalf("%+v", r.Pump.Turn)
	}
	said := k.commandOutput()
	for word, want := range map[string]bool{"wrote write": true, "wrote read": false, "wrote out": false, "secret": true, "REACHED": false} {
		if strings.Contains(said, word) != want {
			t.Errorf("%q: %v, want %v, in\n%s", word, !want, want, said)
		}
	}
	if n := strings.Count(said, "HELLO"); n != 1 {
		t.Errorf("%d answers, want the one of the host that is allowed, in\n%s", n, said)
	}
}

func TestSessionThatCannotBeConfinedAsAskedIsNotPrepared(t *testing.T) {
	b, dir := confinedBed(t)
	seed := b.plantable(scriptedmodel.Serve(t, `rules: []`))
	root := b.root()
	for name, c := range map[string]struct {
		sandbox string
		c       hosts.Confinement
		says    string
	}{
		"a read path that is not there":  {"workspace-write", hosts.Confinement{Read: []string{dir + "/nowhere"}}, "/nowhere on " + b.spec.Name + " does not exist"},
		"a write path that is not there": {"workspace-write", hosts.Confinement{Write: []string{dir + "/nowhere"}}, "--write " + dir + "/nowhere"},
		"a write path that is a file":    {"workspace-write", hosts.Confinement{Write: []string{dir + "/read/f"}}, "is no folder"},
		"our own folder":                 {"workspace-write", hosts.Confinement{Write: []string{root}}, "lies in Fairlead's own folder"},
		"a folder that holds ours":       {"workspace-write", hosts.Confinement{Write: []string{filepath.Dir(root)}}, "or contains it"},
		"another session's credential":   {"workspace-write", hosts.Confinement{Read: []string{root + "/sessions"}}, "lies in Fairlead's own folder"},
		"two names for one folder":       {"workspace-write", hosts.Confinement{Write: []string{dir + "/write", dir + "/link"}}, "given twice"},
		"a profile that the seed lacks":  {protocol.ByProfile, hosts.Confinement{Profile: "dev"}, "no permission profile dev (it has: none)"},
	} {
		b.sh(`ln -sfn write "$1/link"`, dir)
		_, err := b.prepare(places.PrepareSessionInput{Claim: protocol.Claim{Session: "s1", Host: b.spec, Generation: 1, Pump: 1}, Seed: seed, Sandbox: c.sandbox, Confine: c.c})
		app := appError(t, err)
		var p protocol.Problem
		if app.Type() != protocol.ErrTypeSandbox || !app.NonRetryable() || !strings.Contains(app.Message(), c.says) {
			t.Errorf("%s: failed as %s: %v", name, app.Type(), app)
		}
		if err := app.Details(&p); err != nil || p.Kind != protocol.ErrTypeSandbox || p.Hint == "" {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	if left := b.sh(`[ ! -e "$1/sessions/s1" ] || find "$1/sessions/s1"`, root); left != "" {
		t.Errorf("left: %s", left)
	}
}

// If codex lacks a feature, PrepareSession reports this before it uses the feature.
func TestSessionAsksNothingOfACodexThatHasNotGotIt(t *testing.T) {
	for version, c := range map[string]struct {
		c    hosts.Confinement
		says string
	}{
		"0.130.0": {hosts.Confinement{Network: protocol.NetworkOff}, "codex 0.130.0 does not support named permission profiles"},
		"0.140.0": {hosts.Confinement{Network: protocol.NetworkHosts, Hosts: []string{"example.com"}}, "codex 0.140.0 cannot let commands reach only some network hosts"},
	} {
		spec := hosttest.StartSSHD(t, hosttest.Options{NewUser: true}).Spec()
		b := newBed(t, spec).with(version, "")
		_, err := b.prepare(places.PrepareSessionInput{Claim: protocol.Claim{Session: "s1", Host: spec, Generation: 1, Pump: 1}, Sandbox: "workspace-write", Confine: c.c})
		if app := appError(t, err); app.Type() != protocol.ErrTypeSandbox || !strings.Contains(app.Message(), c.says) {
			t.Errorf("%s: %v", version, app)
		}
	}
}

func TestSeedsOwnProfileIsExtendedAndHolds(t *testing.T) {
	b, dir := confinedBed(t)
	model := scriptedmodel.Serve(t, fmt.Sprintf(`
rules:
  - steps:
      - - shell: for d in %[1]s/write %[1]s/out .; do (echo x >$d/new) 2>/dev/null && echo "wrote ${d##*/}"; done; cat "$CODEX_HOME/auth.json"; ls %[1]s >/dev/null && echo listed
      - say: done
`, dir))
	seed := b.plantableWith(model, fmt.Sprintf("[permissions.dev]\nextends = \":read-only\"\n[permissions.dev.filesystem]\n%q = \"write\"\n", dir+"/write"))
	k := b.preparedAs("dev", places.PrepareSessionInput{Sandbox: protocol.ByProfile, Seed: seed, Confine: hosts.Confinement{Profile: "dev"}})
	if k.permissions != seeds.Profile(protocol.ByProfile) {
		t.Errorf("runs under %q", k.permissions)
	}
	k.start()
	k.pump(conversation.TurnEnded, k.message("try it"))
	said := k.commandOutput()
	for word, want := range map[string]bool{"wrote write": true, "wrote out": false, "wrote .": false, madeUpKey: false, "listed": true} {
		if strings.Contains(said, word) != want {
			t.Errorf("%q: %v, want %v, in\n%s", word, !want, want, said)
		}
	}
}

// A path in our own folder is recognized even if it goes through a link.
func TestPathsInOurOwnFolderAreKnownBehindALink(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost})
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b.sh(`cd "$1" && mkdir -p real/root/sessions/s/work real/root/sessions/other real/beside && ln -s real linked`, dir)
	for _, root := range []string{dir + "/linked/root", dir + "/real/root"} {
		l := folder.LayoutOf(root, "s")
		for p, ours := range map[string]bool{
			dir + "/real/root/sessions/other": true, dir + "/linked/root/sessions/other": true, dir + "/linked/root": true, dir + "/real": true, dir + "/linked": true,
			dir + "/real/beside": false, dir + "/linked/beside": false, root + "/sessions/s/work": false,
		} {
			at, err := hosts.PlaceOf(t.Context(), b.host(), root, "workspace-write", l, hosts.Confinement{Write: []string{p}})
			if (err != nil) != ours || ours && !strings.Contains(err.Error(), "Fairlead's own folder") {
				t.Errorf("root %s, --write %s: %+v, %v", root, p, at, err)
			}
		}
	}
	// The root folder does not exist yet, and its path goes through a link too.
	root := dir + "/linked/yet/to come"
	if _, err := hosts.PlaceOf(t.Context(), b.host(), root, "workspace-write", folder.LayoutOf(root, "s"), hosts.Confinement{Write: []string{dir + "/real"}}); err == nil {
		t.Error("what is to hold our folder may be written")
	}
}
