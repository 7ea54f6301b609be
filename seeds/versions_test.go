package seeds

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
)

type codexVersion struct {
	version      string
	profile      bool
	rootUndoesIt bool
	asAnother    bool // behaved like another one of these; tried only with -every-version
}

// supported is a selection of the supported codex versions. For each it has two
// measured facts: whether codex knows our permission profile, and whether root's
// commands can undo it. They include all versions of wire.Tested. All other supported
// versions lie between two of these.
var supported = []codexVersion{
	{version: "0.125.0"},
	{version: "0.130.0", asAnother: true},
	{version: "0.133.0", profile: true, rootUndoesIt: true, asAnother: true},
	{version: "0.140.0", profile: true, rootUndoesIt: true, asAnother: true},
	{version: "0.147.0", profile: true, rootUndoesIt: true},
	{version: "0.149.1", profile: true, asAnother: true},
	{version: "0.155.1", profile: true, asAnother: true},
	{version: "", profile: true}, // the pinned one
}

// trialPatience is that of sessions, in milliseconds. codex's own is 10 s, which a busy
// machine may need.
const trialPatience = 40_000

var everyVersion = flag.Bool("every-version", false, "try also the versions of codex that behave as another one that is tried")

// olderCodex returns the codex that `make versions` installed.
func olderCodex(t *testing.T, version string) string {
	t.Helper()
	if version == "" {
		return codexBinary(t)
	}
	name, err := filepath.EvalSymlinks(filepath.Join(realparts.CodexVersion(t, version), "bin", "codex"))
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestEveryVersionOfTheWindowIsTried(t *testing.T) {
	for _, version := range wire.Tested {
		if version == wire.TestedVersion {
			version = ""
		}
		if !slices.ContainsFunc(supported, func(v codexVersion) bool { return v.version == version }) {
			t.Errorf("the protection of credentials is not tried on codex %s", version)
		}
	}
}

// TestTheProofTellsTheTruthOnEveryVersion plants a decoy and tries to reach it. It does so on
// a version of each kind or, with -every-version, on each version, as root and as an ordinary
// user, in both sandboxes. If the proof says that the credential is safe, everything else is
// tried too.
func TestTheProofTellsTheTruthOnEveryVersion(t *testing.T) {
	for _, v := range supported {
		if v.asAnother && !*everyVersion || v.version == "0.140.0" && runtime.GOARCH == "arm64" { // never published for arm64
			continue
		}
		t.Run("codex-"+v.version, func(t *testing.T) {
			// Below /tmp, versions up to 0.140 start no command under the profile.
			codexAsRootAndUser(t, olderCodex(t, v.version), "/srv", func(t *testing.T, h codexHost) {
				h.lax = v.version != "" // older versions know fewer features
				root := strings.HasSuffix(t.Name(), "/root")
				if root != (strings.TrimSpace(h.sh(t, "id -u")) == "0") {
					t.Fatal("this test must be run as root")
				}
				for _, sandbox := range []string{protocol.WorkspaceWrite, protocol.ReadOnly} {
					proof, open, refused := h.prove(t, sandbox)
					switch {
					case refused != v.profile && (refused || proof.Works):
						// This is as measured. The following code checks the details.
					default:
						t.Errorf("%s: profile refused: %v, works: %v", sandbox, refused, proof.Works)
					}
					if leaks := v.rootUndoesIt && root; v.profile && leaks != (len(proof.Leaks) > 0) {
						t.Errorf("%s: leaks %v; want any: %v", sandbox, proof.Leaks, leaks)
					}
					if v.rootUndoesIt && root && !slices.Contains(proof.Leaks, "umount auth.json") {
						t.Errorf("%s: root could not take the mount away: %v", sandbox, proof.Leaks)
					}
					if leaks := v.rootUndoesIt && root; v.profile && leaks != (len(open) > 0) {
						t.Errorf("%s: private paths %v are open; want any: %v", sandbox, open, leaks)
					}
					if proof.Holds() {
						t.Run(sandbox, func(t *testing.T) { h.cannotReadAndWorkGoesOn(t, sandbox) })
					}
				}
			})
		})
	}
}

// prove makes the proof that a session makes before its credential is planted. It returns the
// private paths that are open.
func (h codexHost) prove(t *testing.T, sandbox string) (proof Proof, open []string, refused bool) {
	t.Helper()
	decoy, mark := Decoy()
	spec := h.spec(decoy)
	spec.Sandbox, spec.CodexHome = sandbox, h.dir+"/trial-"+sandbox+"/codex-home"
	spec.Private = h.private(t)
	planted, err := Plant(t.Context(), h, spec)
	if err != nil {
		t.Fatal(err)
	}
	a := h.start(t, spec)
	if profiles := a.ask("command/exec", map[string]any{"command": []string{"true"}, "cwd": spec.WorkDir, "permissionProfile": planted.Permissions}); profiles.Error == nil {
		open = a.tryPrivate(spec, planted.Permissions)
	}
	m := a.ask("command/exec", map[string]any{
		"command": ProofCommand(spec.CodexHome, mark, sandbox), "cwd": spec.WorkDir, "permissionProfile": planted.Permissions, "timeoutMs": trialPatience,
	})
	if m.Error != nil {
		return Proof{}, nil, true
	}
	var r struct{ Stdout, Stderr string }
	if err := json.Unmarshal(m.Result, &r); err != nil {
		t.Fatal(err)
	}
	if proof, err = ReadProof(r.Stdout); err != nil {
		t.Fatalf("%s: %v: %s%s", sandbox, err, r.Stdout, r.Stderr)
	}
	return proof, open, false
}

// TestTheProofSeesWhatIsOpen checks that the proof reports every way to read, because
// all are open in a plain sandbox.
func TestTheProofSeesWhatIsOpen(t *testing.T) {
	asRootAndUser(t, func(t *testing.T, h codexHost) {
		decoy, mark := Decoy()
		spec := h.spec(decoy)
		spec.Sandbox, spec.NoProfile, spec.Private = protocol.WorkspaceWrite, true, h.private(t)
		planted, err := Plant(t.Context(), h, spec)
		if err != nil || planted.Permissions != "" || strings.Contains(h.read(t, configFile), "permissions") {
			t.Fatalf("%+v, %v", planted, err)
		}
		a := h.start(t, spec)
		if open := a.tryPrivate(spec, ""); !slices.Equal(open, spec.Private) {
			t.Errorf("the trial could read %v, want %v", open, spec.Private)
		}
		var r struct{ Stdout string }
		if err := json.Unmarshal(a.call("command/exec", map[string]any{
			"command": ProofCommand(spec.CodexHome, mark, protocol.WorkspaceWrite), "cwd": spec.WorkDir, "sandboxPolicy": map[string]any{"type": "workspaceWrite"}, "timeoutMs": trialPatience,
		}), &r); err != nil {
			t.Fatal(err)
		}
		proof, err := ReadProof(r.Stdout)
		if err != nil || !proof.Works || proof.Holds() {
			t.Fatalf("%+v, %v", proof, err)
		}
		for _, way := range []string{"cat", "a descriptor", "cp", "dd", "tar", "a relative path", "a symbolic link", "/proc/self/root"} {
			for _, file := range []string{authFile, configFile} {
				if !slices.Contains(proof.Leaks, way+" "+file) {
					t.Errorf("%s %s was not seen: %v", way, file, proof.Leaks)
				}
			}
		}
	})
}

func TestATrialThatDidNotEndProvesNothing(t *testing.T) {
	for _, printed := range []string{"", "works\n", "works\nen", "bwrap: no\nend\n", "end\nworks\n"} {
		if p, err := ReadProof(printed); err == nil {
			t.Errorf("%q: %+v", printed, p)
		}
	}
	if p, err := ReadProof("end\n"); err != nil || p.Holds() {
		t.Errorf("where nothing works: %+v, %v", p, err)
	}
	if p, err := ReadProof("leak cat auth.json\nleak cat auth.json\nworks\nend\n"); err != nil || p.Holds() || len(p.Leaks) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	if b, mark := Decoy(); b.Kind() != KindAPIKey || !strings.Contains(string(b.File(authFile)), mark) || !strings.Contains(string(b.File(configFile)), mark) {
		t.Error("the decoy is not marked in both files")
	}
	if _, err := os.Stat("/srv"); err != nil {
		t.Errorf("the tests of versions need it: %v", err)
	}
}
