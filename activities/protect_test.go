package activities

import (
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/codexpkg"
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
	"fairlead.dev/fairlead/seeds"
)

// with returns the activities of a worker with another codex version and another
// setting for hosts that cannot protect a credential.
func (b *bed) with(codex, unprotected string) *bed {
	b.t.Helper()
	dir := realparts.CodexVersion(b.t, codex)
	deps := b.set.site.Deps
	deps.Codex, deps.Unprotected = codexpkg.NewCodexSource(dir), unprotected
	c := *b
	c.set = New(deps)
	return &c
}

func TestSessionSaysBeforeItStartsThatItsCredentialIsOpen(t *testing.T) {
	for name, c := range map[string]struct {
		codex       string
		user        bool
		permissions string
		says        string
	}{
		"no profile":       {"0.125.0", true, "", "codex 0.125.0 knows no permission profile"},
		"root may undo it": {"0.147.0", false, seeds.Profile("workspace-write"), "with codex 0.147.0 on this host a command in the sandbox can get at the credential (by "},
	} {
		t.Run(name, func(t *testing.T) {
			spec := hosttest.StartSSHD(t, hosttest.Options{NewUser: c.user}).Spec()
			spec.Root = filepath.Join(t.TempDir(), "root")
			if c.user {
				spec.Root = ""
			}
			refusing := newBed(t, spec).with(c.codex, "")
			in := places.PrepareSessionInput{Claim: protocol.Claim{Session: "s1", Host: spec, Generation: 1, Pump: 1},
				Seed: refusing.plantable(scriptedmodel.Serve(t, `rules: []`)), Sandbox: "workspace-write"}
			_, err := refusing.prepare(in)
			app := appError(t, err)
			var p protocol.Problem
			if app.Type() != protocol.ErrTypeUnprotected || !app.NonRetryable() || !strings.Contains(app.Message(), c.says) {
				t.Errorf("failed as %v", app)
			}
			if err := app.Details(&p); err != nil || p.Kind != protocol.ErrTypeUnprotected || !strings.Contains(p.Hint, "seeds.unprotected: allow") {
				t.Errorf("%+v, %v", p, err)
			}
			if left := refusing.sh(`[ ! -e "$1/sessions/s1" ] || find "$1/sessions/s1"; grep -rlF -e "$2" -e made-up- "$1/sessions" "$1/rooms" 2>/dev/null || :`, refusing.root(), madeUpKey); left != "" {
				t.Errorf("left: %s", left)
			}
			check := refusing.check()
			if got := checkNamed(t, check, "credential"); got.OK || !got.Required || !strings.Contains(got.Detail, c.says) || check.Facts["credential"] != "unprotected" || check.OK {
				t.Errorf("host check: %+v, %v", got, check.Facts)
			}

			allowing := refusing.with(c.codex, hosts.UnprotectedAllow)
			in.Claim.Pump++
			out, err := allowing.prepare(in)
			if err != nil || out.Permissions != c.permissions || !strings.Contains(out.Unprotected, c.says) {
				t.Fatalf("allowed: %+v, %v", out, err)
			}
			if got := checkNamed(t, allowing.check(), "credential"); got.OK || got.Required {
				t.Errorf("host check where it is allowed: %+v", got)
			}
			if trial := allowing.sh(`grep -rlF -e made-up- "$1" || :; ls "$1"`, out.Layout.Seen()); strings.Contains(trial, "trial") {
				t.Errorf("of the trial is left: %s", trial)
			}

			// Without a credential, there are still the folders of other sessions.
			in.Claim.Session, in.Seed = "s2", nil
			if out, err = refusing.prepare(in); appError(t, err).Type() != protocol.ErrTypeUnprotected {
				t.Errorf("with no seed: %+v, %v", out, err)
			}
		})
	}
}

func TestProtectedSessionSaysNothing(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.prepared("safe", "", "read-only", b.plantable(scriptedmodel.Serve(t, `rules: []`)))
	if k.permissions != seeds.Profile("read-only") {
		t.Errorf("runs under %q", k.permissions)
	}
	if left := b.sh(`grep -rlF -e made-up-proof -e "$2" "$1" || :; ls "$1"`, k.layout.Seen(), "# made-up-"); strings.Contains(left, "trial") {
		t.Errorf("of the trial is left: %s", left)
	}
	if got := checkNamed(t, b.check(), "credential"); !got.OK || !got.Required {
		t.Errorf("%+v", got)
	}
}
