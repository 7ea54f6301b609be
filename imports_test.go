package fairlead

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "fairlead.dev/fairlead/"

// leaves import nothing of ours outside their own tree. Their tests import the test kits.
var leaves = []string{"hostexec", "hostexec/process", "hostexec/tree", "hostexec/internal/script", "hostexec/internal/lentkey", "conversation", "conversation/wire", "internal/store", "internal/sshsig", "internal/protocol"}

// below are the packages of ours that leaves may import. They import the standard library
// alone, but for localSocket, which imports golang.org/x/sys.
const (
	vocabulary  = "internal/protocol"
	shellWords  = "internal/shellwords"
	escapes     = "internal/escape"
	localSocket = "internal/localsocket"
	secretFile  = "internal/secretfile"
)

var below = []string{vocabulary, shellWords, escapes, localSocket, secretFile}

// chunkStore keeps content and knows no snapshots.
const chunkStore = "snapshots/chunks"

// testKits are for tests and rigs alone.
var testKits = []string{"internal/realparts", "internal/lab", "hostexec/hosttest", "cmd/ctl/internal/terminaltest"}

// A rule says which folders may import a package.
type rule struct {
	imported string   // an import path, or the beginning of one
	by       []string // folders
	tests    []string // folders whose tests may, too
	why      string
}

var rules = []rule{
	{"go.temporal.io/", []string{"cmd", "workflows", "activities", "internal/lab", "internal/payload", "internal/authority", "internal/cluster"}, nil,
		"domain packages know nothing of Temporal"},
	{"golang.org/x/crypto/ssh", []string{"hostexec", "internal/sshsig", "internal/access", "internal/command", "internal/audit", "internal/authority", "internal/login",
		"cmd/ctl/internal/conn", "cmd/internal/apiflows", "cmd/ctl/internal/login", "cmd/ctl/internal/signkey", "cmd/worker", "internal/lab/touchkey"}, []string{"workflows", "internal/api", "internal/tokens", "cmd/ctl", "cmd/internal/flows", "internal/httpapi", "internal/lab/e2e/authority"},
		"SSH belongs to hostexec; the others sign or verify commands, decisions and certificates, and dial nobody; tests make keys"},
	{"github.com/pkg/sftp", []string{"hostexec"}, nil, "SFTP belongs to hostexec"},
	{module + "workflows", []string{"cmd", "internal/lab"}, nil, "workflows decide; nobody below knows them"},
	{module + "activities", []string{"workflows", "cmd", "internal/api", "internal/lab"}, []string{"internal/httpapi"},
		"activities stand above the domain"},
	{module + "seeds", []string{"activities", "cmd", "internal/api", "internal/lab"}, []string{"conversation", "snapshots"},
		"activities install credentials, ctl reads the owner's files; tests look for them in snapshots and start codex with them"},
	{module + "snapshots", []string{"activities", "cmd", "internal/api", "internal/httpapi", "internal/lab"}, nil,
		"snapshots are taken by activities; ctl prints what a manifest says"},
	{module + "snapshots/chunks", []string{"snapshots", "activities", "cmd", "internal/api", "internal/lab"}, nil,
		"the worker opens the one chunk store that its activities and its API use; ctl names files by digest"},
	{module + "hostexec", []string{"activities", "seeds", "snapshots", "cmd/worker", "internal/api", "internal/lab"}, []string{"conversation", "internal/gateway"},
		"ctl never dials a host; conversation is given a pipe, and its tests make one; the gateway is given a listener, likewise"},
	{module + "hostexec/process", []string{"activities", "internal/lab"}, []string{"hostexec"},
		"activities keep processes; hostexec carries their scripts and knows none"},
	{module + "hostexec/tree", []string{"activities", "seeds", "snapshots", "internal/lab", "hostexec/hosttest"}, []string{"hostexec"},
		"hostexec carries the scripts of trees and knows none"},
	{module + "conversation", []string{"activities", "workflows", "cmd/worker", "internal/api", "internal/lab"}, []string{"cmd/ctl", "snapshots", "seeds"},
		"an activity holds a conversation, and a workflow says what it begins with and carries its state; tests make entries and results, and try each version of codex"},
	{module + "conversation/wire", []string{"conversation", "activities", "internal/lab"}, []string{"cmd/ctl", "snapshots", "seeds"},
		"conversation and activities read codex's lines; workflows see what a pump made of them"},
	{"charm.land/", []string{"cmd/ctl"}, nil, "ctl alone has a screen"},
	{"cel.dev/cel-go", []string{"internal/policy", "internal/access"}, nil, "internal/policy evaluates rules, internal/access conditions of roles"},
	{"github.com/coreos/go-oidc", []string{"internal/login"}, nil, "internal/login verifies ID tokens"},
	{"golang.org/x/oauth2", []string{"internal/login"}, nil, "internal/login knows the flows of logins"},
	{"github.com/zitadel/oidc", []string{"internal/lab"}, nil, "an identity provider is for tests"},
	{module + "internal/login", []string{"cmd", "internal/api", "internal/lab", "internal/console"}, nil, "workers let people log in at their API, and ctl asks them"},
	{module + "internal/policy", []string{"activities", "workflows", "cmd", "internal/lab"}, nil,
		"the caller of a policy gives the facts"},
	{module + "internal/sshsig", []string{"internal/policy", "internal/access", "internal/command", "internal/audit", "internal/authority", "internal/login", "internal/tokens", "internal/api", "workflows", "cmd", "internal/lab"}, nil,
		"ctl signs commands and decisions, and they are verified where they count"},
	{module + "internal/access", []string{"internal/command", "internal/authority", "internal/login", "internal/tokens", "internal/api", "internal/httpapi", "workflows", "cmd", "internal/lab", "internal/console"}, nil,
		"who may do what is asked where commands count; activities do what was admitted"},
	{module + "internal/command", []string{"internal/audit", "internal/authority", "internal/login", "internal/api", "activities/batches", "activities/overseer", "workflows", "cmd", "internal/lab"}, nil,
		"commands are signed where they are given and checked where they count; a batch keeps those of its sessions"},
	{module + "internal/authority", []string{"internal/login", "internal/api", "workflows", "cmd", "internal/lab"}, []string{"internal/httpapi"},
		"programs open it; workflows, logins and the API ask it"},
	{module + "internal/audit", []string{"internal/authority", "internal/api", "internal/httpapi", "activities", "workflows", "cmd", "internal/lab", "internal/console", "internal/slackapp"}, nil,
		"records are made where commands are judged, carried by activities, and shown by the API"},
	{module + "internal/tokens", []string{"internal/api", "cmd", "internal/lab"}, []string{"internal/httpapi"}, "workers keep API tokens for their API, and ctl uses them"},
	{"github.com/go-webauthn/", []string{"internal/passkey"}, nil, "internal/passkey verifies passkeys"},
	{module + "internal/passkey", []string{"internal/api", "internal/audit", "internal/console", "workflows", "cmd", "internal/lab"}, []string{"internal/authority"},
		"the console registers passkeys, the API takes what they sign, workers verify it where it counts, and audit records have it"},
	{module + "internal/notify", []string{"activities", "workflows", "cmd", "internal/slackapp", "internal/lab"}, nil,
		"activities send by the rules of workers; ctl checks a file of rules"},
	{module + "internal/slackapp", []string{"cmd/worker", "internal/lab"}, nil, "workers let people decide in Slack"},
	{"github.com/slack-go/slack", []string{"internal/notify", "internal/slackapp"}, nil, "internal/notify sends messages, and internal/slackapp hears of clicks"},
	{"github.com/gorilla/websocket", []string{"internal/slackapp", "internal/lab"}, nil, "internal/slackapp hears of clicks"},
	{"github.com/wneessen/go-mail", []string{"internal/notify"}, nil, "internal/notify sends messages"},
	{"github.com/SherClockHolmes/webpush-go", []string{"internal/notify"}, nil, "internal/notify sends messages"},
	{"github.com/nicholas-fedor/shoutrrr", []string{"internal/notify"}, nil, "internal/notify sends messages"},
	{module + "internal/payload", []string{"cmd", "internal/stack", "internal/lab", "internal/authority"}, []string{"workflows", "deploy/systemd"},
		"programs connect to Temporal; what runs on a connection knows no keys; authority asks who wrote a payload; tests read histories, and keys that a page has made"},
	{module + "internal/cluster", []string{"cmd", "internal/lab"}, []string{"workflows"}, "ctl checks a cluster, and workers at their start; workflows set its attributes"},
	{module + "internal/capacity", []string{"cmd/ctl", "internal/lab"}, nil, "ctl estimates what a load takes, and a bench compares that with a run"},
	{module + "activities/slots", []string{"activities", "cmd/worker"}, nil, "a worker divides its slots"},
	{module + "internal/spend", []string{"activities", "cmd/worker", "internal/lab"}, nil, "workers count what sessions spend"},
	{module + "internal/tunnel", []string{"internal/api", "cmd/ctl/internal/host", "internal/lab"}, nil, "ctl and workers carry connections to hosts"},
	{module + "internal/egress", []string{"activities", "workflows", "internal/config", "cmd"}, nil, "workers let programs of sessions reach what is listed; who asks for it and who permits it read the same rules"},
	{module + "internal/gateway", []string{"activities", "cmd/worker", "internal/lab"}, []string{"conversation"}, "workers serve the model to sessions; tests try each version of codex with it"},
	{module + "internal/api", []string{"cmd", "internal/httpapi", "internal/stack", "internal/lab", "internal/console", "internal/slackapp"}, nil, "only programs speak HTTP"},
	{module + "internal/httpapi", []string{"cmd", "internal/lab"}, nil, "workers serve it over their API"},
	{module + "internal/console", []string{"cmd/worker", "internal/stack", "internal/lab"}, nil, "workers serve the console, and a stack makes its links"},
	{"github.com/alexedwards/scs", []string{"internal/console"}, nil, "the console keeps logins"},
	{"github.com/chromedp/", []string{"internal/lab"}, nil, "a browser is for tests"},
	{"github.com/danielgtaylor/huma", []string{"internal/httpapi"}, nil, "internal/httpapi describes the API for programs"},
	{"github.com/google/go-containerregistry", []string{"deploy"}, nil, "deploy makes images"},
	{"github.com/CycloneDX/", []string{"deploy"}, nil, "deploy lists what is released"},
	{module + "deploy", []string{"deploy"}, nil, "what makes releases is no part of them"},
	{module + "internal/lab", []string{"internal/lab"}, nil, "rigs and stand-ins are no part of the product"},
	{module + "internal/realparts", []string{"internal/lab", "hostexec/hosttest"}, nil, "it is for tests"},
	{module + "hostexec/hosttest", []string{"internal/lab"}, nil, "it is for tests"},
}

// TestThePictureOfImportsHolds reads the files itself: `go list` in a test is
// answered from the test cache after a forbidden import was added.
func TestThePictureOfImportsHolds(t *testing.T) {
	seen := map[string]bool{}
	files, tests := 0, 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || path == "bin" || path == filepath.Join("deploy", "devserver")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		if files++; strings.HasSuffix(path, "_test.go") {
			tests++
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		seen[dir] = true
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if why := forbidden(dir, strings.HasSuffix(path, "_test.go"), imported); why != "" {
				t.Errorf("%s imports %s: %s", path, imported, why)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files-tests < 40 || tests < 40 {
		t.Fatalf("only %d files and %d tests were read: this test looks in the wrong place", files-tests, tests)
	}
	for _, leaf := range leaves {
		if !seen[leaf] {
			t.Errorf("%s is named here and does not exist: the rule is out of date", leaf)
		}
	}
}

// forbidden says why a file in dir may not import a package. It is empty if the
// file may.
func forbidden(dir string, test bool, imported string) string {
	if test {
		for _, kit := range testKits {
			if within(imported, module+kit) {
				return ""
			}
		}
	}
	allowed := func(r rule) bool {
		for _, by := range r.by {
			if within(dir, by) {
				return true
			}
		}
		for _, by := range r.tests {
			if test && within(dir, by) {
				return true
			}
		}
		return within(module+dir, r.imported)
	}
	for _, r := range rules {
		if within(imported, r.imported) && !allowed(r) {
			who := strings.Join(r.by, ", ")
			if r.tests != nil {
				who += "; tests of " + strings.Join(r.tests, ", ")
			}
			return r.why + " (allowed: " + who + ")"
		}
	}
	if dir == chunkStore && !test && strings.HasPrefix(imported, module) && imported != module+"internal/store" {
		return chunkStore + " knows the store alone"
	}
	for _, leaf := range leaves {
		if dir == leaf && !test && strings.HasPrefix(imported, module) && !slices.Contains(below, strings.TrimPrefix(imported, module)) && !sameTree(dir, imported) {
			return leaf + " is a leaf and imports nothing of ours outside its tree but " + strings.Join(below, ", ")
		}
	}
	if dir == localSocket && !test && strings.HasPrefix(imported, module) {
		return localSocket + " imports nothing of ours"
	}
	if first, _, _ := strings.Cut(imported, "/"); slices.Contains(below, dir) && dir != localSocket && !test && strings.Contains(first, ".") {
		return dir + " imports the standard library alone"
	}
	return ""
}

// sameTree says whether a folder and an import lie below the same leaf.
func sameTree(dir, imported string) bool {
	for _, leaf := range leaves {
		if within(dir, leaf) && within(imported, module+leaf) {
			return true
		}
	}
	return false
}

// A floor is a folder whose packages may import only some of each other.
type floor struct {
	root  string
	rooms map[string][]string // each package, with those of the floor that it may import
}

var floors = []floor{
	{"cmd/ctl/internal/", map[string][]string{ // of the nouns, few import another one
		"core":     nil,
		"signkey":  {"core"},
		"conn":     {"core", "signkey"},
		"show":     {"core"},
		"term":     {"core"},
		"view":     {"core", "show", "term"},
		"live":     {"core", "conn", "show"},
		"inbox":    {"core", "show", "term", "view"},
		"start":    {"core", "conn"},
		"approval": {"core", "conn", "show", "live", "signkey", "term", "inbox"},
		"session":  {"core", "conn", "show", "live", "start", "approval", "view"},
		"snapshot": {"core", "conn", "show", "start", "session"},
		"host":     {"core", "conn", "show", "live"},
		"seed":     {"core", "conn", "show", "live", "start"},
		"batch":    {"core", "conn", "show", "start"},
		"schedule": {"core", "conn", "show", "start", "batch"},
		"policy":   {"core"},
		"login":    {"core", "conn", "signkey"},
		"token":    {"core", "conn"},
		"access":   {"core", "conn"},
		"audit":    {"core", "conn"},
		"notify":   {"core", "conn"},
		"cluster":  {"core", "conn"},
		"stack":    {"core", "conn", "show"},
	}},
	{"workflows/", map[string][]string{ // a schedule starts the others; none else imports another one
		"internal/kit":    nil,
		"internal/lease":  {"internal/kit"},
		"internal/ruling": {"internal/kit"},
		"internal/admit":  {"internal/kit"},
		"newer":           {"internal/kit"},
		"session":         {"internal/kit", "internal/lease", "internal/ruling", "internal/admit"},
		"hostpool":        {"internal/kit", "internal/lease"},
		"seed":            {"internal/kit", "internal/lease", "internal/ruling"},
		"toolcall":        {"internal/kit"},
		"batch":           {"internal/kit", "internal/admit"},
		"care":            {"internal/kit", "internal/lease"},
		"outbox":          {"internal/kit"},
		"schedule":        {"internal/kit", "session", "batch"},
	}},
	{"activities/", map[string][]string{ // places prepares and closes what the other jobs work on
		"internal/kit": nil,
		"records":      {"internal/kit"},
		"inquiry":      {"internal/kit"},
		"folder":       {"internal/kit"},
		"codexpkg":     {"internal/kit"},
		"site":         {"internal/kit", "records", "inquiry", "codexpkg"},
		"hosts":        {"internal/kit", "records", "folder", "codexpkg", "site"},
		"audits":       {"internal/kit", "records", "site"},
		"overseer":     {"inquiry"},
		"notices":      {"site"},
		"logins":       {"internal/kit", "inquiry", "folder", "site", "hosts"},
		"workspaces":   {"internal/kit", "inquiry", "folder", "site"},
		"snaps":        {"internal/kit", "inquiry", "folder", "site", "hosts", "workspaces"},
		"gateways":     {"internal/kit", "records", "folder", "site"},
		"hearing":      {},
		"slots":        {"internal/kit"},
		"pumps":        {"internal/kit", "records", "folder", "site", "hosts", "logins", "gateways"},
		"places":       {"internal/kit", "records", "inquiry", "folder", "site", "hosts", "logins", "gateways", "workspaces", "snaps", "pumps"},
		"batches":      {"internal/kit", "records", "inquiry", "site", "overseer"},
	}},
}

// TestTheRoomsOfAFloorStandApart reads the imports of the packages of each floor, those of
// their tests too.
func TestTheRoomsOfAFloorStandApart(t *testing.T) {
	for _, f := range floors {
		read := map[string]bool{}
		err := filepath.WalkDir(f.root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			room := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path))+"/", f.root)
			if room == "" || f.root+room == "cmd/ctl/internal/terminaltest/" {
				return nil
			}
			room = strings.TrimSuffix(room, "/")
			may, known := f.rooms[room]
			if !known {
				t.Errorf("%s is not in the picture", f.root+room)
				return nil
			}
			read[room] = true
			parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			for _, spec := range parsed.Imports {
				imported, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					return err
				}
				other, ours := strings.CutPrefix(imported, module+f.root)
				kit := other == "terminaltest" && strings.HasSuffix(path, "_test.go")
				if ours && !kit && !slices.Contains(may, other) {
					t.Errorf("%s imports %s: what both need belongs below them", path, other)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for room := range f.rooms {
			if !read[room] {
				t.Errorf("%s is named here and has no files", f.root+room)
			}
		}
	}
}

// TestForbiddenImportsAreFound: one import of each kind that a rule stops.
func TestForbiddenImportsAreFound(t *testing.T) {
	for _, c := range []struct {
		dir      string
		test     bool
		imported string
		ok       bool
	}{
		{"hostexec", false, "go.temporal.io/sdk/client", false},
		{"hostexec", true, "go.temporal.io/sdk/client", false},
		{"hostexec", false, module + "internal/version", false},
		{"hostexec", false, module + "hostexec/hosttest", false},
		{"hostexec", false, module + "internal/protocol", true},
		{"internal/protocol", false, module + "hostexec", false},
		{"internal/protocol", false, "golang.org/x/text/unicode/norm", false},
		{"internal/protocol", false, "encoding/json", true},
		{"hostexec", true, module + "hostexec/hosttest", true},
		{"hostexec", false, module + "hostexec/internal/script", true},
		{"hostexec", false, module + "hostexec/process", false},
		{"hostexec", false, module + "hostexec/tree", false},
		{"hostexec/process", false, module + "hostexec/tree", false},
		{"hostexec/process", false, module + "hostexec", true},
		{"hostexec/process", false, module + "internal/version", false},
		{"snapshots", false, module + "hostexec/process", false},
		{"snapshots", false, module + "snapshots/chunks", true},
		{"snapshots/chunks", false, module + "snapshots", false},
		{"snapshots/chunks", false, module + "hostexec", false},
		{"snapshots/chunks", false, module + "internal/store", true},
		{"workflows", false, module + "snapshots/chunks", false},
		{"cmd/ctl", false, module + "hostexec", false},
		{"cmd/ctl", false, module + "conversation", false},
		{"cmd/ctl", true, module + "conversation", true},
		{"activities", false, module + "workflows", false},
		{"activities", false, module + "internal/lab/standin", false},
		{"activities", true, module + "internal/lab/standin", true},
		{"workflows", false, module + "activities", true},
		{"internal/labour", false, module + "workflows", false},
	} {
		if why := forbidden(c.dir, c.test, c.imported); (why == "") != c.ok {
			t.Errorf("%+v: %q", c, why)
		}
	}
}

// within says whether path is root or lies below it.
func within(path, root string) bool {
	root = strings.TrimSuffix(root, "/")
	return path == root || strings.HasPrefix(path, root+"/")
}

// TestTheTopLevelIsAsDrawn keeps folders from growing like weeds.
func TestTheTopLevelIsAsDrawn(t *testing.T) {
	want := map[string]bool{"cmd": true, "workflows": true, "activities": true, "hostexec": true, "seeds": true,
		"snapshots": true, "conversation": true, "deploy": true, "docs": true, "internal": true, "bin": true}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	have := 0
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		have++
		if !want[e.Name()] {
			t.Errorf("folder %s is not in the picture", e.Name())
		}
	}
	if have < 8 {
		t.Errorf("only %d folders at the top level", have)
	}
}
