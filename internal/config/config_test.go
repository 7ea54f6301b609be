package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestEveryMistakeIsToldWithItsLine(t *testing.T) {
	_, err := Parse("/etc/fairlead/c.yaml", []byte(`temporal:
  address: nonsense
zone: "A Zone"
store:
  url: ftp://x
  identiy: id
limits:
  pumps: many
  drain: 20
  watch: 5m
  line: 100
log: {format: xml}
api: {listen: "0.0.0.0:80"}
metrics: 7
seeds:
  token_endpoint: http://auth.example/oauth/token
  issuer: auth.example
  maintain: 3s
  unprotected: maybe
snapshots:
  keep: 0
  max_age: 3m
  max_bytes: 20
  prune: 1s
timeouts: {startup: 10ms, quiet: 3s, turn: 0s}
hosts: {check: 1s, leftovers: 9m}
`))
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("no *Error: %v", err)
	}
	want := []string{
		"line 2: temporal.address:",
		"line 3: zone:",
		"line 5: store.url:",
		"line 6: store.identiy: no such key: here are url, identity, recipients, id, tidy",
		"line 8: limits.pumps:",
		"line 9: limits.drain:",
		"line 10: limits.watch:",
		"line 11: limits.line: 100 is not between",
		"line 12: log.format:",
		"line 13: api.listen: 0.0.0.0:80 is not loopback: it needs api.tls with cert and key",
		"line 13: api.listen: 0.0.0.0:80 is not loopback: it needs api.token_file",
		"line 14: metrics:",
		"line 19: seeds.unprotected: \"maybe\" is neither refuse nor allow",
		"line 16: seeds.token_endpoint:",
		"line 17: seeds.issuer:",
		"line 18: seeds.maintain:",
		"line 21: snapshots.keep: 0 is not between",
		"line 22: snapshots.max_age: 3m0s is less than 1h",
		"line 23: snapshots.max_bytes: 20 is less than",
		"line 24: snapshots.prune: 1s is not between 10m and 720h",
		"line 25: timeouts.startup: 10ms is not between 1s and 168h",
		"line 25: timeouts.turn: 0s is not between 1s and 168h",
		"line 26: hosts.check: 1s is not between 10m and 720h",
		"line 26: hosts.leftovers: 9m0s is not between 10m and 720h",
	}
	text := err.Error()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("not told: %s", w)
		}
	}
	if len(e.Problems) != len(want) {
		t.Errorf("%d mistakes told, want %d", len(e.Problems), len(want))
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestTheCodecEndpointIsLoopbackOrGuarded(t *testing.T) {
	for text, want := range map[string]string{
		`{codec_listen: "127.0.0.1:7234", codec_origins: ["http://127.0.0.1:8233"]}`: "",
		`{codec_listen: off}`:                                                           "",
		`{codec_listen: "unix:///run/codec.sock"}`:                                      "",
		`{codec_listen: "unix://codec.sock"}`:                                           "api.codec_listen: ",
		`{codec_listen: "0.0.0.0:7234", tls: {cert: c.pem, key: k.pem}, token_file: t}`: "",
		`{codec_listen: "0.0.0.0:7234"}`:                                                "api.codec_listen: 0.0.0.0:7234 is not loopback: it needs api.token_file",
		`{codec_listen: "0.0.0.0:7234", token_file: t}`:                                 "it needs api.tls",
		`{codec_listen: "nonsense"}`:                                                    "api.codec_listen: ",
		`{codec_origins: ["*"]}`:                                                        "api.codec_origins: ",
		`{codec_origins: ["http://127.0.0.1:8233/"]}`:                                   "api.codec_origins: ",
	} {
		_, err := Parse("c.yaml", []byte("api: "+text+"\n"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
}

// The profiler shows what a worker does, and a token for it would cross the network in the
// clear.
func TestTheProfilerIsServedOnLoopbackAlone(t *testing.T) {
	for text, good := range map[string]bool{
		`{listen: "127.0.0.1:9090", pprof: true}`: true, `{listen: "[::1]:9090", pprof: true}`: true, `{listen: "localhost:9090", pprof: true}`: true,
		`{listen: "0.0.0.0:9090"}`: true, `{listen: ":9090", pprof: false}`: true, `{pprof: true}`: true, `{listen: ":9090", hosts: [worker-1.example]}`: true,
		`{listen: "0.0.0.0:9090", pprof: true}`: false, `{listen: ":9090", pprof: true}`: false, `{listen: "worker-1:9090", pprof: true}`: false,
		`{listen: ":9090", hosts: ["http://worker-1"]}`: false,
	} {
		_, err := Parse("/etc/fairlead/c.yaml", []byte("api: {token_file: t}\nmetrics: "+text+"\n"))
		if (err == nil) != good || err != nil && !strings.Contains(err.Error(), "line 2: metrics.") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestWorkersAndOwnersAreChecked(t *testing.T) {
	for text, good := range map[string]bool{
		`{workers: ["https://worker-1.example:7443", "unix:///run/fairlead/api.sock", "http://127.0.0.1:7000"]}`: true,
		`{workers: ["http://worker-1.example:7000"]}`:                                                            false, `{workers: ["worker-1"]}`: false, `{workers: ["https://ann:secret@worker-1"]}`: false,
		`{owner: fairlead}`: true, `{owner: "999"}`: true, `{owner: "a b"}`: false, `{owner: "-1"}`: false,
	} {
		_, err := Parse("/etc/fairlead/c.yaml", []byte("api: "+text+"\n"))
		if (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Every user of a machine reaches its loopback.
func TestAWorkersCodecEndpointNeedsATokenUnlessItIsASocket(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("sixteen-characters-or-more"), 0o600); err != nil {
		t.Fatal(err)
	}
	for listen, refused := range map[string]bool{
		`codec_listen: "127.0.0.1:7234"`: true, `codec_listen: "localhost:7234"`: true, `codec_listen: "[::1]:7234"`: true,
		`codec_listen: "127.0.0.1:7234", token_file: ` + token: false, `codec_listen: "unix:///run/codec.sock"`: false, `codec_listen: off`: false, "": false,
	} {
		c, err := Parse("c.yaml", []byte("api: {"+listen+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		err = c.CheckFiles()
		if got := err != nil && strings.Contains(err.Error(), "set api.token_file, or listen on a socket"); got != refused {
			t.Errorf("%s: %v; want a refusal: %v", listen, err, refused)
		}
	}
}

func TestNoValueOfASecretFileOrURLIsRepeated(t *testing.T) {
	_, err := Parse("c.yaml", []byte("store: {url: \"s3://user:hunter2@bucket\"}\n"))
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a password in a URL: %v", err)
	}
}

func TestGoodConfigIsReadWhole(t *testing.T) {
	c, err := Parse("/etc/f/c.yaml", []byte(`# comment
temporal: {address: "[::1]:7233", namespace: ns, tls: {ca: ca.pem}}
zone: eu
store: {url: "s3://b?region=x", identity: id.txt}
api: {listen: "10.0.0.1:7443", tls: {cert: c.pem, key: /k.pem}, token_file: t}
limits: {drain: 1m30s, sticky_cache: 0, connections_per_host: 40, watch: 5s, line: 16777216}
seeds: {token_endpoint: "http://127.0.0.1:7/oauth/token", maintain: 0s}
snapshots: {max_age: 720h, prune: 0s}
timeouts: {silence: 90s, quiet: 0s}
hosts: {leftovers: 0s}
log:
`))
	if err != nil {
		t.Fatal(err)
	}
	if c.Temporal.Address != "[::1]:7233" || c.Zone != "eu" || c.Limits.Drain != 90*time.Second || c.Limits.StickyCache != 0 || c.Limits.Pumps != 1000 || c.Limits.ConnectionsPerHost != 40 || c.Limits.Watch != 5*time.Second || c.Limits.Line != 16<<20 {
		t.Errorf("read %+v", c)
	}
	for got, want := range map[string]string{
		c.Store.Identity: "/etc/f/id.txt", c.Temporal.TLS.CA: "/etc/f/ca.pem", c.API.TLS.Key: "/k.pem", c.API.TokenFile: "/etc/f/t", c.Log.Format: "json",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if c.Seeds.TokenEndpoint != "http://127.0.0.1:7/oauth/token" || c.Seeds.Issuer != Issuer || c.Seeds.Maintain != 0 {
		t.Errorf("read seeds %+v", c.Seeds)
	}
	if want := (Snapshots{Keep: 10, MaxAge: 720 * time.Hour, MaxBytes: 20 << 30}); c.Snapshots != want {
		t.Errorf("read snapshots %+v", c.Snapshots)
	}
	if want := (Hosts{Check: 6 * time.Hour}); !reflect.DeepEqual(c.Hosts, want) {
		t.Errorf("read hosts %+v", c.Hosts)
	}
	if want := (Timeouts{StartUp: time.Minute, Request: time.Minute, Silence: 90 * time.Second, Retry: 30 * time.Minute, Turn: 24 * time.Hour}); c.Timeouts != want {
		t.Errorf("read timeouts %+v", c.Timeouts)
	}
	if c, err := Parse("empty.yaml", nil); err != nil || c.Zone != "default" || c.Limits.ConnectionsPerHost != 512 {
		t.Errorf("an empty file: %v, %v", c, err)
	}
}

func TestTextThatLooksLikeANumberStaysText(t *testing.T) {
	for _, id := range []string{"00000000000000000000000000000000", "12345678901234567890123456789012", "1234567890123456789012345678e012"} {
		c, err := Parse("c.yaml", []byte("store: {id: "+id+"}\nidentity: 007\n"))
		if err != nil || c.Store.ID != id || c.Identity != "007" {
			t.Errorf("%s reads as %+v, %v", id, c, err)
		}
	}
}

func TestSyntaxErrorHasALineAndQuotesNothing(t *testing.T) {
	_, err := Parse("c.yaml", []byte("zone: x\nstore: {url: \"hunter2\n"))
	var e *Error
	if !errors.As(err, &e) || e.Problems[0].Line == 0 || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a file that ends too early: %v", err)
	}
	_, err = Parse("c.yaml", []byte("zone: x\nzone: y\n"))
	if err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a key given twice: %v", err)
	}
}

func TestFilesAreCheckedOnTheMachine(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "id.txt"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := Parse(filepath.Join(dir, "c.yaml"), []byte("codex: {source: nowhere}\nstore:\n  identity: id.txt\n  url: file:///s\napi: {token_file: none}\n"))
	if err != nil {
		t.Fatal(err)
	}
	err = c.CheckFiles()
	for _, want := range []string{"line 1: codex.source:", "line 3: store.identity: others may read", "chmod 600", "line 5: api.token_file:"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not told: %s in %v", want, err)
		}
	}
}

// Whose commands count is not left to a default: nobody must take a worker that takes all
// commands for one that requires authority.
func TestAWorkersConfigSaysWhoseCommandsCount(t *testing.T) {
	told := func(text string) bool {
		t.Helper()
		c, err := Parse("/etc/fairlead/worker.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		err = c.CheckFiles()
		return err != nil && strings.Contains(err.Error(), "/etc/fairlead/worker.yaml") && strings.Contains(err.Error(), "authority: missing: say local (") && strings.Contains(err.Error(), "or required (")
	}
	if !told("zone: x\n") {
		t.Error("a config that does not say it is taken")
	}
	for _, is := range []string{AuthorityLocal, AuthorityRequired} {
		if told("authority: " + is + "\n") {
			t.Errorf("a config that says %s is refused", is)
		}
	}
}

func TestWhatBeganBeforeAuthorityWasRequiredIsKnownByTheLaterTime(t *testing.T) {
	for text, want := range map[string]string{
		"": "0001-01-01T00:00:00Z",
		"authority_since: 2026-12-02T00:00:00Z\n":                                                         "2026-12-02T00:00:00Z",
		"temporal: {worker_payload_since: 2026-12-01T00:00:00Z}\n":                                        "2026-12-01T00:00:00Z",
		"authority_since: 2026-12-02T00:00:00Z\ntemporal: {worker_payload_since: 2026-12-03T00:00:00Z}\n": "2026-12-03T00:00:00Z",
	} {
		c, err := Parse("c.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.RequiredSince(); err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	if _, err := Parse("c.yaml", []byte("authority_since: soon\n")); err == nil || !strings.Contains(err.Error(), "authority_since: \"soon\" is not a time") {
		t.Errorf("a time that is none: %v", err)
	}
}

func TestARevokedFileAndAReadTokenAreUsedOrRefused(t *testing.T) {
	for text, want := range map[string]string{
		"authority: local\nrevoked: r.yaml\n":                      "",
		"authority: required\nrevoked: r.yaml\n":                   "revoked: it is only used with authority: local",
		"api: {token_file: t, read_token_file: r}\n":               "",
		"api: {read_token_file: r}\n":                              "api.read_token_file: without api.token_file, the API needs no token",
		"state: state\nauthority: local\nidentity: worker-1\n":     "",
		"authority: local\nrevoked: r.yaml\naccess: access.yaml\n": "access: an access file is only used with authority: required",
	} {
		c, err := Parse("/etc/fairlead/worker.yaml", []byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", text, err)
		}
		if want == "" && c.Revoked != "" && c.Revoked != "/etc/fairlead/r.yaml" || c != nil && c.State != "" && c.State != "/etc/fairlead/state" {
			t.Errorf("%q: %q, %q", text, c.Revoked, c.State)
		}
	}
}
