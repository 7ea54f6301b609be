package config

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"filippo.io/age"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/secretfile"
	"fairlead.dev/fairlead/internal/teamtool"
)

// MaxSocketPath bounds the path of our unix socket, in bytes. Linux allows 107, and the
// socket briefly has a longer name.
const MaxSocketPath = 103

var (
	namePattern     = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)
	identityPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
	ownerPattern    = regexp.MustCompile(`^([0-9]{1,10}|[A-Za-z_][A-Za-z0-9._-]{0,31})$`)
	hostPattern     = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`)
	idPattern       = regexp.MustCompile(`^[0-9a-f]{32}$`)
)

const maxDenyRead = 64

// leastShort leaves slots for polls beside short activities.
const leastShort = 8

// A deployment's name is before the dot of a version in Temporal's lists.
var (
	deploymentPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`)
	buildPattern      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,99}$`)
)

// check returns the mistakes that do not depend on the machine.
func (c *Config) check() []Problem {
	var p []Problem
	add := func(key, format string, args ...any) { p = append(p, c.at(key, format, args...)) }

	if !namePattern.MatchString(c.Zone) {
		add("zone", "%q is not a name: 1 to 63 of a-z, 0-9, dot, dash and underscore", c.Zone)
	}
	if c.Authority != AuthorityLocal && c.Authority != AuthorityRequired {
		add("authority", "%q is neither local nor required", shorten(c.Authority))
	}
	if _, err := timeOrZero(c.AuthoritySince); err != nil {
		add("authority_since", "%q is not a time such as 2026-12-01T12:00:00Z", shorten(c.AuthoritySince))
	}
	switch d := c.Deployment; {
	case d.Name == "" && d.Build != "":
		add("deployment.build", "a build is one of a deployment: set deployment.name, too")
	case d.Name != "" && !deploymentPattern.MatchString(d.Name):
		add("deployment.name", "%q is not a name: 1 to 100 letters, digits, dashes and underscores", shorten(d.Name))
	case d.Build != "" && !buildPattern.MatchString(d.Build):
		add("deployment.build", "%q is not the name of a build: 1 to 100 letters, digits, dots, plus signs, dashes and underscores", shorten(d.Build))
	}
	if c.Access != "" && c.Authority != AuthorityRequired {
		add("access", "an access file is only used with authority: required")
	}
	if c.Revoked != "" && c.Authority != AuthorityLocal {
		add("revoked", "it is only used with authority: local: with authority: required, the access file says what is revoked")
	}
	if c.API.ReadTokenFile != "" && c.API.TokenFile == "" {
		add("api.read_token_file", "without api.token_file, the API needs no token: set that, too")
	}
	p = append(p, c.checkConsole()...)
	p = append(p, c.checkModels()...)
	p = append(p, c.checkEgress()...)
	if c.TokenFile != "" && c.Authority != AuthorityRequired {
		add("token_file", "an API token is only used with authority: required")
	}
	if c.Temporal.Address != "" {
		if err := checkHostPort(c.Temporal.Address, false); err != nil {
			add("temporal.address", "%v", err)
		}
	}
	if _, err := c.Temporal.Since(); err != nil {
		add("temporal.payloads_since", "%q is not a time such as 2026-12-01T12:00:00Z", shorten(c.Temporal.PayloadsSince))
	}
	if _, err := c.Temporal.WorkersSince(); err != nil {
		add("temporal.worker_payload_since", "%q is not a time such as 2026-12-01T12:00:00Z", shorten(c.Temporal.WorkerPayloadSince))
	}
	if t := c.Temporal.TLS; t != nil && (t.Cert == "") != (t.Key == "") {
		add("temporal.tls", "cert and key go together")
	}
	if c.Store.URL != "" {
		if err := checkStoreURL(c.Store.URL); err != nil {
			add("store.url", "%v", err)
		}
	}
	for _, r := range c.Store.Recipients {
		if _, err := age.ParseRecipients(strings.NewReader(r)); err != nil {
			add("store.recipients", "%q is not an age recipient (age1…)", shorten(r))
		}
	}
	if c.Store.ID != "" && !idPattern.MatchString(c.Store.ID) {
		add("store.id", "%q is not a store's id: 32 hex digits, as `ctl status` shows it", shorten(c.Store.ID))
	}
	p = append(p, c.checkAPI()...)
	p = append(p, c.checkLogin()...)
	if !slices.Contains([]string{"json", "text"}, c.Log.Format) {
		add("log.format", "%q is neither json nor text", c.Log.Format)
	}
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, c.Log.Level) {
		add("log.level", "%q is not one of debug, info, warn, error", c.Log.Level)
	}
	if !slices.Contains([]string{"refuse", "allow"}, c.Seeds.Unprotected) {
		add("seeds.unprotected", "%q is neither refuse nor allow", shorten(c.Seeds.Unprotected))
	}
	if !slices.Contains([]string{protocol.CredentialsPlanted, protocol.CredentialsGateway}, c.Seeds.Credentials) {
		add("seeds.credentials", "%q is neither planted nor gateway", shorten(c.Seeds.Credentials))
	}
	for key, l := range map[string]struct{ is, least int }{
		"limits.pumps": {c.Limits.Pumps, 1}, "limits.watches": {c.Limits.Watches, 1}, "limits.bulk": {c.Limits.Bulk, 1},
		"limits.commands": {c.Limits.Commands, 1}, "limits.short": {c.Limits.Short, leastShort},
	} {
		if l.is < l.least || l.is > 100_000 {
			add(key, "%d is not between %d and 100000", l.is, l.least)
		}
	}
	if c.Limits.StickyCache < 0 {
		add("limits.sticky_cache", "%d is negative: 0 keeps no workflow in memory", c.Limits.StickyCache)
	}
	if c.Limits.ConnectionsPerHost < 2 {
		add("limits.connections_per_host", "%d is too few: at least 2", c.Limits.ConnectionsPerHost)
	}
	if c.Limits.Drain <= 0 {
		add("limits.drain", "%s gives running work no time to hand over: use some seconds", c.Limits.Drain)
	}
	if c.Limits.Watch < 100*time.Millisecond || c.Limits.Watch > time.Minute {
		add("limits.watch", "%s is not between 100ms and 1m: changes of a waiting session must be noticed within two minutes", c.Limits.Watch)
	}
	if c.Limits.Line < 8<<20 || c.Limits.Line > 1<<30 {
		// codex accepts messages of a million characters and echoes them in one line.
		add("limits.line", "%d is not between 8388608 (8 MiB) and 1073741824 (1 GiB)", c.Limits.Line)
	}
	for key, at := range map[string]string{"seeds.token_endpoint": c.Seeds.TokenEndpoint, "seeds.issuer": c.Seeds.Issuer, "seeds.usage_endpoint": c.Seeds.UsageEndpoint} {
		if err := checkEndpoint(at); err != nil {
			add(key, "%v", err)
		}
	}
	if m := c.Seeds.Maintain; m != 0 && (m < time.Minute || m > 7*24*time.Hour) {
		add("seeds.maintain", "%s is not between 1m and 168h (0 is never)", m)
	}
	if h := c.Hosts.Check; h != 0 && (h < 10*time.Minute || h > 30*24*time.Hour) {
		add("hosts.check", "%s is not between 10m and 720h (0 is never)", h)
	}
	if l := c.Hosts.Leftovers; l != 0 && (l < 10*time.Minute || l > 30*24*time.Hour) {
		add("hosts.leftovers", "%s is not between 10m and 720h (0 is never)", l)
	}
	if n := len(c.Hosts.DenyRead); n > maxDenyRead {
		add("hosts.deny_read", "%d paths are too many: at most %d", n, maxDenyRead)
	}
	for _, p := range c.Hosts.DenyRead {
		if below, home := strings.CutPrefix(p, "~/"); !home && !filepath.IsAbs(p) || filepath.Clean(below) == "." || filepath.Clean(p) == "/" || strings.ContainsRune(p, 0) {
			add("hosts.deny_read", "%q is not an absolute path, nor ~/ and a path", shorten(p))
		}
	}
	p = append(p, c.checkBounds()...)
	if d := c.Store.Tidy; d != 0 && (d < 10*time.Minute || d > 30*24*time.Hour) {
		add("store.tidy", "%s is not between 10m and 720h (0 is never)", d)
	}
	p = append(p, c.checkSnapshots()...)
	for i, w := range c.Tools.Webhooks {
		if err := teamtool.CheckTarget(w.URL); err != nil {
			add("tools.webhooks", "webhook %d: %v", i+1, err)
		}
		if w.SecretFile == "" {
			add("tools.webhooks", "webhook %d has no secret_file: calls are signed with what it has", i+1)
		}
	}
	p = append(p, c.checkToolQueues()...)
	if d := c.Deliver; d.MaxBytes < 1 || d.MaxBytes > 16<<30 || d.SessionBytes < d.MaxBytes || d.SessionCalls < 1 || d.SessionCalls > 10_000 {
		add("deliver", "max_bytes is between 1 and 17179869184 (16 GiB), session_bytes not less than it, session_calls between 1 and 10000")
	}
	p = append(p, c.checkTimeouts()...)
	p = append(p, c.checkMetrics()...)
	p = append(p, c.checkTraces()...)
	if c.Identity != "" && !identityPattern.MatchString(c.Identity) {
		add("identity", "%q is not a worker's name: letters, digits, dot, dash and underscore", shorten(c.Identity))
	}
	return p
}

func (c *Config) checkBounds() (p []Problem) {
	if err := c.Bounds.Ceiling().Check(); err != nil {
		p = append(p, c.at("bounds", "%v", err))
	}
	for _, h := range c.Bounds.Hosts {
		switch err := h.Ceiling().Check(); {
		case len(h.Labels) == 0:
			p = append(p, c.at("bounds.hosts", "labels are missing: what holds for all hosts stands beside hosts"))
		case err != nil:
			p = append(p, c.at("bounds.hosts", "%v", err))
		case h.Ceiling().None():
			p = append(p, c.at("bounds.hosts", "an entry bounds nothing"))
		}
	}
	return p
}

func (c *Config) checkTimeouts() (p []Problem) {
	for _, t := range []struct {
		key string
		is  time.Duration
		off bool
	}{
		{"startup", c.Timeouts.StartUp, false}, {"request", c.Timeouts.Request, false}, {"silence", c.Timeouts.Silence, false},
		{"quiet", c.Timeouts.Quiet, true}, {"retry", c.Timeouts.Retry, true}, {"turn", c.Timeouts.Turn, false},
	} {
		if off := t.off && t.is == 0; !off && (t.is < time.Second || t.is > 7*24*time.Hour) {
			p = append(p, c.at("timeouts."+t.key, "%s is not between 1s and 168h", t.is))
		}
	}
	return p
}

func (c *Config) checkSnapshots() (p []Problem) {
	s := c.Snapshots
	if s.Keep < 1 || s.Keep > 10_000 {
		p = append(p, c.at("snapshots.keep", "%d is not between 1 and 10000: a session goes on from its newest", s.Keep))
	}
	if s.MaxAge != 0 && s.MaxAge < time.Hour {
		p = append(p, c.at("snapshots.max_age", "%s is less than 1h (0 is any age)", s.MaxAge))
	}
	if s.MaxBytes < 1<<20 {
		p = append(p, c.at("snapshots.max_bytes", "%d is less than 1048576 (1 MiB)", s.MaxBytes))
	}
	if s.Prune != 0 && (s.Prune < 10*time.Minute || s.Prune > 30*24*time.Hour) {
		p = append(p, c.at("snapshots.prune", "%s is not between 10m and 720h (0 is never)", s.Prune))
	}
	return p
}

func (c *Config) checkMetrics() (p []Problem) {
	m := c.Metrics
	for _, host := range m.Hosts {
		if !hostPattern.MatchString(host) {
			p = append(p, c.at("metrics.hosts", "%q is not the name of a host, such as worker-1.example", shorten(host)))
		}
	}
	if m.Listen == "" {
		return p
	}
	if err := checkHostPort(m.Listen, true); err != nil {
		return append(p, c.at("metrics.listen", "%v", err))
	}
	if m.Pprof && !m.Loopback() {
		// A token would cross the network in the clear.
		p = append(p, c.at("metrics.pprof", "everybody who reaches %s could profile the worker: let metrics.listen be loopback (from elsewhere: ssh -L), or set pprof to false", m.Listen))
	}
	return p
}

func (c *Config) checkTraces() (p []Problem) {
	t := c.Traces
	if t.Endpoint != "" {
		u, err := url.Parse(t.Endpoint)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			p = append(p, c.at("traces.endpoint", "%q is not the http or https URL of a collector, without a user (headers come from OTEL_EXPORTER_OTLP_HEADERS)", shorten(t.Endpoint)))
		}
	}
	if !(t.Sample >= 0 && t.Sample <= 1) {
		p = append(p, c.at("traces.sample", "%v is not a share between 0 and 1", t.Sample))
	}
	return p
}

func (c *Config) checkAPI() (p []Problem) {
	a := c.API
	if (a.TLS != nil) && (a.TLS.Cert == "") != (a.TLS.Key == "") {
		p = append(p, c.at("api.tls", "cert and key go together"))
	}
	if a.Address != "" && !isAPIAddress(a.Address) {
		p = append(p, c.at("api.address", "%q is not https://host:port or unix:///path (http only on loopback)", shorten(a.Address)))
	}
	for _, address := range a.Workers {
		if !isAPIAddress(address) {
			p = append(p, c.at("api.workers", "%q is not https://host:port or unix:///path (http only on loopback)", shorten(address)))
		}
	}
	if a.Owner != "" && !ownerPattern.MatchString(a.Owner) {
		p = append(p, c.at("api.owner", "%q is not the name or the id of a user", shorten(a.Owner)))
	}
	p = append(p, c.checkCodec()...)
	if a.Listen == "" {
		return p
	}
	if strings.HasPrefix(a.Listen, "unix://") {
		if err := checkSocket(a.Listen); err != nil {
			p = append(p, c.at("api.listen", "%v", err))
		}
		return p
	}
	if err := checkHostPort(a.Listen, true); err != nil {
		return append(p, c.at("api.listen", "%v", err))
	}
	if c.Loopback() {
		return p
	}
	if a.TLS == nil || a.TLS.Cert == "" {
		p = append(p, c.at("api.listen", "%s is not loopback: it needs api.tls with cert and key", a.Listen))
	}
	if a.TokenFile == "" {
		p = append(p, c.at("api.listen", "%s is not loopback: it needs api.token_file", a.Listen))
	}
	return p
}

func isAPIAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.User == nil && (u.Scheme == "https" && u.Host != "" || u.Scheme == "unix" && u.Path != "" || u.Scheme == "http" && isLoopback(u.Hostname()))
}

// checkSocket checks unix:///path.
func checkSocket(listen string) error {
	path := strings.TrimPrefix(listen, "unix://")
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%q: the path of a socket is absolute, unix:///run/fairlead/api.sock", shorten(listen))
	}
	if len(path) > MaxSocketPath {
		return fmt.Errorf("the path has %d bytes and a socket's path at most %d: use a shorter one", len(path), MaxSocketPath)
	}
	return nil
}

func (c *Config) checkCodec() (p []Problem) {
	a := c.API
	for _, origin := range a.CodecOrigins {
		if u, err := url.Parse(origin); err != nil || u.Host == "" || u.Scheme+"://"+u.Host != origin {
			p = append(p, c.at("api.codec_origins", "%q is not an origin, such as http://127.0.0.1:8233", shorten(origin)))
		}
	}
	if !c.Codec() {
		return p
	}
	if strings.HasPrefix(a.CodecListen, "unix://") {
		if err := checkSocket(a.CodecListen); err != nil {
			p = append(p, c.at("api.codec_listen", "%v", err))
		}
		return p
	}
	if err := checkHostPort(a.CodecListen, true); err != nil {
		return append(p, c.at("api.codec_listen", "%v, nor unix:///path, nor %s", err, CodecOff))
	}
	if c.CodecLoopback() {
		return p
	}
	if a.TLS == nil || a.TLS.Cert == "" {
		p = append(p, c.at("api.codec_listen", "%s is not loopback: it needs api.tls with cert and key", a.CodecListen))
	}
	if a.TokenFile == "" {
		p = append(p, c.at("api.codec_listen", "%s is not loopback: it needs api.token_file", a.CodecListen))
	}
	return p
}

// Codec reports whether there is a codec endpoint.
func (c *Config) Codec() bool { return c.API.CodecListen != "" && c.API.CodecListen != CodecOff }

// CodecLoopback reports whether the codec endpoint is loopback.
func (c *Config) CodecLoopback() bool {
	host, _, err := net.SplitHostPort(c.API.CodecListen)
	return err == nil && isLoopback(host)
}

// Loopback reports whether metrics are served only on this machine.
func (m Metrics) Loopback() bool {
	host, _, err := net.SplitHostPort(m.Listen)
	return err == nil && isLoopback(host)
}

// Loopback reports whether the API listens only on this machine.
func (c *Config) Loopback() bool {
	if c.API.Listen == "" || strings.HasPrefix(c.API.Listen, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(c.API.Listen)
	return err == nil && isLoopback(host)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// CheckFiles checks what a worker needs: required settings, and files that are missing or
// that others may read. The error is an *Error.
func (c *Config) CheckFiles() error {
	var p []Problem
	add := func(key, format string, args ...any) { p = append(p, c.at(key, format, args...)) }
	secret := func(key, path string) {
		if err := CheckSecretFile(path); err != nil {
			add(key, "%v", err)
		}
	}
	plain := func(key, path string) {
		if path == "" {
			return
		}
		if info, err := os.Stat(path); err != nil {
			add(key, "%v", err)
		} else if info.IsDir() {
			add(key, "%s is a folder", path)
		}
	}
	if c.CodecLoopback() && c.API.TokenFile == "" {
		add("api.codec_listen", "every user of this machine can reach %s: set api.token_file, or listen on a socket (unix:///path), or say off", c.API.CodecListen)
	}
	if _, said := c.lines["authority"]; !said {
		add("authority", "missing: say local (every command that reaches Temporal with its payload key counts) or required (only signed commands that the access file allows count)")
	}
	if c.Store.URL == "" {
		add("store.url", "missing: say where blobs are kept, such as file:///var/lib/fairlead/store")
	}
	if c.Store.Identity == "" {
		add("store.identity", "missing: name the age identity file that opens the store")
	} else {
		secret("store.identity", c.Store.Identity)
	}
	if c.Codex.Source == "" {
		add("codex.source", "missing: name the folder of the codex that is brought to hosts")
	} else if _, err := os.Stat(filepath.Join(c.Codex.Source, "bin", "codex")); err != nil {
		add("codex.source", "%v (run `make tools`, or name another folder)", err)
	}
	if n := len(c.Codex.Platforms); n > maxPlatforms {
		add("codex.platforms", "%d folders are too many: at most %d", n, maxPlatforms)
	}
	for _, dir := range c.Codex.Platforms {
		if _, err := os.Stat(filepath.Join(dir, "codex-package.json")); err != nil {
			add("codex.platforms", "%v (run `make platforms`, or name another folder)", err)
		}
	}
	if c.Temporal.APIKeyFile != "" {
		secret("temporal.api_key_file", c.Temporal.APIKeyFile)
	}
	if c.Temporal.PayloadKey != "" {
		secret("temporal.payload_key", c.Temporal.PayloadKey)
	} else if c.Authority == AuthorityRequired || c.Temporal.WorkerPayloadKey != "" {
		add("temporal.payload_key", "missing: what workers write can be told from what others write only if payloads are encrypted")
	}
	if c.Temporal.WorkerPayloadKey != "" {
		secret("temporal.worker_payload_key", c.Temporal.WorkerPayloadKey)
	} else if c.Authority == AuthorityRequired {
		add("temporal.worker_payload_key", "missing: authority: required needs a key that all workers have and ctl does not have")
	}
	if c.API.TokenFile != "" {
		secret("api.token_file", c.API.TokenFile)
	}
	if c.API.ReadTokenFile != "" {
		secret("api.read_token_file", c.API.ReadTokenFile)
	}
	for key, t := range map[string]*TLS{"temporal.tls": c.Temporal.TLS, "api.tls": c.API.TLS} {
		if t == nil {
			continue
		}
		plain(key+".ca", t.CA)
		plain(key+".cert", t.Cert)
		if t.Key != "" {
			secret(key+".key", t.Key)
		}
	}
	plain("instructions", c.Instructions)
	for _, w := range c.Tools.Webhooks {
		secret("tools.webhooks", w.SecretFile)
		if _, err := teamtool.ReadSecrets(w.SecretFile); err != nil && CheckSecretFile(w.SecretFile) == nil {
			add("tools.webhooks", "%v", err)
		}
	}
	for _, q := range c.Tools.Activities {
		if q.KeyFile == "" {
			continue
		}
		secret("tools.activities", q.KeyFile)
		if _, err := teamtool.ReadQueueKeys(q.KeyFile); err != nil && CheckSecretFile(q.KeyFile) == nil {
			add("tools.activities", "%v", err)
		}
	}
	return newError(c.path, append(p, c.checkLoginFiles()...))
}

// CheckSecretFile returns an error unless a file can be read by this process and by nobody else.
func CheckSecretFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a folder", path)
	case secretfile.Exposed(info):
		return fmt.Errorf("others may read %s (mode %04o): chmod 600 %s", path, info.Mode().Perm(), path)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// checkHostPort requires host:port. Port 0 is only for listening.
func checkHostPort(s string, listens bool) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("%q is not host:port (an IPv6 address in brackets)", shorten(s))
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 0 || n > 65535 || n == 0 && !listens {
		return fmt.Errorf("%q is not a port", shorten(port))
	}
	if host == "" && !listens {
		return fmt.Errorf("%q names no host", shorten(s))
	}
	return nil
}

func checkStoreURL(s string) error {
	u, err := url.Parse(s)
	if err != nil {
		return fmt.Errorf("%q is not a URL", shorten(s))
	}
	switch u.Scheme {
	case "file":
		if u.Host != "" || !filepath.IsAbs(u.Path) {
			return fmt.Errorf("%q: a folder is written file:///absolute/path", shorten(s))
		}
	case "s3", "gs", "azblob":
		if u.Host == "" {
			return fmt.Errorf("%q names no bucket", shorten(s))
		}
	case "mem":
		return fmt.Errorf("a mem:// store is lost when the process ends: use file:///…, s3://…, gs://… or azblob://…")
	default:
		return fmt.Errorf("%q is not supported: use file:///…, s3://…, gs://… or azblob://…", shorten(s))
	}
	if u.User != nil {
		return fmt.Errorf("a URL must not hold a password: use the provider's own environment")
	}
	return nil
}

// checkEndpoint requires https or loopback, because secrets are sent there.
// maxPlatforms is more than codex has.
const maxPlatforms = 16

func checkEndpoint(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || !(u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname())) {
		return fmt.Errorf("%q is not https://host/path (http only on loopback)", shorten(s))
	}
	return nil
}

func shorten(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}
