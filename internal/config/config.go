package config

import (
	"net/url"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// A Config is a config file with the defaults filled in. docs/reference/configuration.md
// describes all keys.
type Config struct {
	Temporal  Temporal  `yaml:"temporal"`
	Zone      string    `yaml:"zone"`
	Store     Store     `yaml:"store"`
	API       API       `yaml:"api"`
	Console   Console   `yaml:"console"`
	Codex     Codex     `yaml:"codex"`
	Log       Log       `yaml:"log"`
	Limits    Limits    `yaml:"limits"`
	Metrics   Metrics   `yaml:"metrics"`
	Traces    Traces    `yaml:"traces"`
	Seeds     Seeds     `yaml:"seeds"`
	Deliver   Deliver   `yaml:"deliver"`
	Snapshots Snapshots `yaml:"snapshots"`
	Hosts     Hosts     `yaml:"hosts"`
	Bounds    Bounds    `yaml:"bounds"`
	Tools     Tools     `yaml:"tools"`
	Models    Models    `yaml:"models"`
	Egress    Egress    `yaml:"egress"`
	// Deployment is the Worker Deployment of this worker. By default it has none.
	Deployment Deployment `yaml:"deployment"`
	// Notifications is the file of a worker with the rules by which people are told of events.
	Notifications string `yaml:"notifications"`
	// Instructions is the file with the organisation's instructions for codex, with which
	// AGENTS.md begins in each session.
	Instructions string `yaml:"instructions"`
	// Authority says whose commands count: local takes those of everybody who can reach
	// Temporal with its payload key; required takes only signed commands that the
	// access file allows.
	Authority string `yaml:"authority"`
	// AuthoritySince is when all workers began to require authority, in RFC 3339. Workflows
	// that began earlier take unsigned signals until they continue as new, which workers ask
	// them to do.
	AuthoritySince string `yaml:"authority_since"`
	// Access is the access file of a worker.
	Access string `yaml:"access"`
	// Revoked is a file of a worker with authority: local: the keys of approvers that do not count.
	Revoked string `yaml:"revoked"`
	// WorkerKey is the file of the key with which a worker signs what it does for people.
	WorkerKey string `yaml:"worker_key"`
	// Principal is the name under which ctl signs. A certificate names its own.
	Principal string `yaml:"principal"`
	// TokenFile has the API token of a program, with which ctl asks workers and signs in place
	// of a key.
	TokenFile string `yaml:"token_file"`
	// Login says how people get certificates for their commands.
	Login Login `yaml:"login"`
	// SignWith is a private key file, agent, agent:SHA256:…, or login. By default ctl signs
	// commands with the certificate of `ctl login`, and decisions with nothing.
	SignWith string   `yaml:"sign_with"`
	Timeouts Timeouts `yaml:"timeouts"`
	// State is the folder of a worker for what must survive it until the store has it.
	State string `yaml:"state"`
	// Identity is the worker's name; by default the machine's.
	Identity string `yaml:"identity"`

	path  string
	lines map[string]int // of each key, such as store.url
}

// Temporal says how to reach Temporal.
type Temporal struct {
	Address    string `yaml:"address"`
	Namespace  string `yaml:"namespace"`
	TLS        *TLS   `yaml:"tls"`
	APIKeyFile string `yaml:"api_key_file"`
	// PayloadKey is the file of payload keys; empty means that payloads stay plain.
	PayloadKey string `yaml:"payload_key"`
	// PayloadsSince is when payloads began to be encrypted for their place, in RFC 3339.
	// Workflows that began earlier may have older payloads; empty means that there are none.
	PayloadsSince string `yaml:"payloads_since"`
	// WorkerPayloadKey is the file of the keys with which workers mark what they write. ctl
	// does not have it.
	WorkerPayloadKey string `yaml:"worker_payload_key"`
	// WorkerPayloadSince is when all workers had such a key, in RFC 3339. What began earlier
	// may have payloads without a mark; empty means that nothing has.
	WorkerPayloadSince string `yaml:"worker_payload_since"`
}

// TLS names certificate files.
type TLS struct {
	CA         string `yaml:"ca"`
	Cert       string `yaml:"cert"`
	Key        string `yaml:"key"`
	ServerName string `yaml:"server_name"`
}

// Store says where blobs are kept and who may read them.
type Store struct {
	URL        string   `yaml:"url"`
	Identity   string   `yaml:"identity"`
	Recipients []string `yaml:"recipients"`
	// ID, if set, must be that of the store.
	ID string `yaml:"id"`
	// Tidy is an interval; 0 means never.
	Tidy time.Duration `yaml:"tidy"`
}

// API configures the worker's HTTP API.
type API struct {
	// Listen is unix:///path or host:port. A host:port that is not loopback needs TLS and a
	// token.
	Listen string `yaml:"listen"`
	// Address is where others reach this API. ctl tries it first.
	Address string `yaml:"address"`
	// Workers are addresses of more workers. ctl trusts addresses of the config, but not
	// those that it learns from Temporal.
	Workers []string `yaml:"workers"`
	// Owner is the user, by name or id, that the worker runs as, if root's ctl asks it.
	Owner     string `yaml:"owner"`
	TLS       *TLS   `yaml:"tls"`
	TokenFile string `yaml:"token_file"`
	// ReadTokenFile has another token, with which callers may only read.
	ReadTokenFile string `yaml:"read_token_file"`
	// CodecListen is where the codec endpoint listens, as in Listen. Empty or off means none.
	// A host:port needs a token and, unless it is loopback, TLS.
	CodecListen  string   `yaml:"codec_listen"`
	CodecOrigins []string `yaml:"codec_origins"`
}

// Console configures the console, which people open in a browser.
type Console struct {
	// Listen is host:port; empty means no console. An address that is not loopback needs TLS.
	Listen string `yaml:"listen"`
	// URL is the address that people open, such as https://fairlead.example.com; default that of
	// Listen.
	URL string      `yaml:"url"`
	TLS *ConsoleTLS `yaml:"tls"`
	// LinkKey is the file of the key for one-time links (ctl ui).
	LinkKey string `yaml:"link_key"`
	// ClientID is the issuer's name for the console; default login.client_id.
	ClientID string `yaml:"client_id"`
	// Lifetime is how long a login counts.
	Lifetime time.Duration `yaml:"lifetime"`
}

// ConsoleTLS names the files of a certificate.
type ConsoleTLS struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

// Values of Config.Authority.
const (
	AuthorityLocal    = "local"
	AuthorityRequired = "required"
)

// CodecOff as CodecListen means no codec endpoint.
const CodecOff = "off"

// Codex is the codex that is copied to hosts.
type Codex struct {
	// Source is a folder with bin/codex and its siblings.
	Source string `yaml:"source"`
	// Platforms are folders as Source, for hosts of other architectures and systems. The
	// first that fits a host is used, Source before all.
	Platforms  []string `yaml:"platforms"`
	Version    string   `yaml:"version"`
	AnyVersion bool     `yaml:"any_version"`
}

// Log configures the worker's log.
type Log struct {
	Format string `yaml:"format"` // json, text
	Level  string `yaml:"level"`  // debug, info, warn, error
}

// A Deployment is a Worker Deployment of Temporal, whose current version alone gets work.
type Deployment struct {
	Name string `yaml:"name"`
	// Build is the version of this worker. By default it is that of the program.
	Build string `yaml:"build"`
}

// Limits bound the work of one worker.
type Limits struct {
	// Pumps bounds the activities that follow codex.
	Pumps int `yaml:"pumps"`
	// Watches bounds those that look after hosts and events.
	Watches int `yaml:"watches"`
	// Bulk bounds those that move folders and archives.
	Bulk int `yaml:"bulk"`
	// Commands bounds the commands of people on hosts.
	Commands int `yaml:"commands"`
	// Short bounds all other activities, together with the polls for activities.
	Short int `yaml:"short"`
	// StickyCache is in workflows.
	StickyCache int `yaml:"sticky_cache"`
	// Drain bounds the time to hand over when the worker stops.
	Drain time.Duration `yaml:"drain"`
	// ConnectionsPerHost holds for each kind (commands, bulk data).
	ConnectionsPerHost int `yaml:"connections_per_host"`
	// Watch is how often the processes of waiting sessions are checked.
	Watch time.Duration `yaml:"watch"`
	// Line bounds a line of codex's output, in bytes. Longer lines are reported and
	// skipped. Transcripts depend on it, so all workers of a zone must use the same value.
	Line int `yaml:"line"`
}

// Timeouts are for sessions that ctl starts, unless its flags differ.
type Timeouts struct {
	StartUp time.Duration `yaml:"startup"` // codex's first answer
	Request time.Duration `yaml:"request"` // codex's answer to a request
	Silence time.Duration `yaml:"silence"` // without output, before codex is asked for a sign of life
	Quiet   time.Duration `yaml:"quiet"`   // of the model after a tool; 0 means no limit
	Retry   time.Duration `yaml:"retry"`   // of codex's tries to reach its provider; 0 means no limit
	Turn    time.Duration `yaml:"turn"`    // less the time in which it waits only for a person
}

// Metrics says where Prometheus metrics are served; empty means nowhere.
type Metrics struct {
	Listen string `yaml:"listen"`
	// Pprof also serves Go's profiler at /debug/pprof, on a loopback address only.
	Pprof bool `yaml:"pprof"`
	// Hosts are more names by which the metrics are reached. localhost, IP addresses, the
	// machine's name and, beyond loopback, names without a dot need not be listed.
	Hosts []string `yaml:"hosts"`
	// Fleet also serves numbers of the whole namespace, for which the worker asks Temporal once a
	// minute while somebody reads the metrics.
	Fleet bool `yaml:"fleet"`
}

// Traces says where ctl and workers send spans of what they do; without an endpoint nowhere.
type Traces struct {
	// Endpoint is the http or https URL of a collector that takes OTLP over HTTP. Without a path,
	// /v1/traces is meant.
	Endpoint string `yaml:"endpoint"`
	// Sample is the share of traces that are sent, above 0 and at most 1; 0 is a tenth. A trace that
	// another program began is sent if that program sends it.
	Sample float64 `yaml:"sample"`
}

// URL is where spans are sent.
func (t Traces) URL() string {
	if u, err := url.Parse(t.Endpoint); err == nil && (u.Path == "" || u.Path == "/") {
		u.Path = "/v1/traces"
		return u.String()
	}
	return t.Endpoint
}

// Share is the share of traces that are sent.
func (t Traces) Share() float64 {
	if t.Sample == 0 {
		return 0.1
	}
	return t.Sample
}

// Seeds configures the care of logins.
type Seeds struct {
	// TokenEndpoint refreshes logins. If it is not codex's default, codex on hosts uses it,
	// too.
	TokenEndpoint string `yaml:"token_endpoint"`
	Issuer        string `yaml:"issuer"`
	// UsageEndpoint tells, without a model call, how much of a ChatGPT login is used.
	UsageEndpoint string `yaml:"usage_endpoint"`
	// Maintain is how often seeds with an old proof are verified; 0 means never. A worker
	// that starts with another value changes it for its namespace.
	Maintain time.Duration `yaml:"maintain"`
	// Unprotected says whether a session with a seed is refused or allowed on a host where
	// codex cannot keep commands from reading the credential.
	Unprotected string `yaml:"unprotected"`
	// Credentials is how sessions get the credential if neither they nor their seed say it:
	// planted, or gateway wherever the model gateway can serve them.
	Credentials string `yaml:"credentials"`
}

// Deliver bounds the files that codex may deliver.
type Deliver struct {
	MaxBytes int64 `yaml:"max_bytes"`
	// SessionBytes counts each content once.
	SessionBytes int64 `yaml:"session_bytes"`
	// SessionCalls counts deliveries that failed, too.
	SessionCalls int `yaml:"session_calls"`
}

// Tools says what tools of teams may do.
type Tools struct {
	// Webhooks are the only ones that workers call.
	Webhooks []Webhook `yaml:"webhooks"`
	// Activities are the only ones of teams' own workers that calls go to.
	Activities []ToolQueue `yaml:"activities"`
}

// A ToolQueue is a task queue of a team's own workers.
type ToolQueue struct {
	Queue string   `yaml:"queue"`
	Types []string `yaml:"types"` // of the activities
	// KeyFile has the keys that the team's workers encrypt with: ID:BASE64, one in a line.
	KeyFile string `yaml:"key_file"`
	// Plain says that arguments and answers are plain in Temporal.
	Plain bool `yaml:"plain"`
}

// A Webhook is one URL or, if it ends in a slash, all below it.
type Webhook struct {
	URL string `yaml:"url"`
	// SecretFile has the secrets that sign calls: whsec_ and base64, one in a line.
	SecretFile string `yaml:"secret_file"`
}

// Egress says what commands of sessions may reach through workers at most. Every worker needs the same.
type Egress struct {
	// Allow has HOST:PORT and *.HOST:PORT. Without any, no session may reach anything.
	Allow []string `yaml:"allow"`
	// Private are addresses that may be reached although they are not public, as ADDRESS/BITS.
	Private []string `yaml:"private"`
}

// Models says what models cost, for budgets in money. Every worker needs the same.
type Models struct {
	// Currency is for display only.
	Currency string `yaml:"currency"`
	// Unknown says what a budget in money does with a model that has no price: refuse, or free, so
	// that it costs nothing.
	Unknown string `yaml:"unknown"`
	// Prices are by the name of the model, or by its beginning and a star.
	Prices map[string]Price `yaml:"prices"`
	// Budgets bound what all sessions with a seed, or of a tenant, use together.
	Budgets []ModelBudget `yaml:"budgets"`
	// SessionRequests are those that each session may begin in a minute; 0 means no bound.
	SessionRequests int64 `yaml:"session_requests"`
	// Bodies are kept for debugging.
	Bodies ModelBodies `yaml:"bodies"`
}

// ModelBodies says whether workers keep what codex asks the model gateway and what it gets.
type ModelBodies struct {
	// Keep is for how long; 0 means that nothing is kept.
	Keep time.Duration `yaml:"keep"`
	// Bytes bounds what is kept of a request, and of an answer.
	Bytes int64 `yaml:"bytes"`
	// SessionBytes bounds what is kept of a session: the oldest goes first.
	SessionBytes int64 `yaml:"session_bytes"`
}

// A ModelBudget bounds a seed or a tenant; what is zero is no bound.
type ModelBudget struct {
	Seed   string `yaml:"seed"`
	Tenant string `yaml:"tenant"`
	// Every is day or month, by the calendar of UTC; empty means that the budget never begins anew.
	Every string `yaml:"every"`
	// Money is a decimal.
	Money  string `yaml:"money"`
	Tokens int64  `yaml:"tokens"` // input and output
	// Requests are those that may begin in a minute.
	Requests int64 `yaml:"requests"`
}

// A Price is what a million tokens cost. Cached is that of input which the provider had in its
// cache; without it, Input counts.
type Price struct {
	Input  float64  `yaml:"input"`
	Cached *float64 `yaml:"cached"`
	Output float64  `yaml:"output"`
}

// Values of Models.Unknown.
const (
	UnknownRefuse = "refuse"
	UnknownFree   = "free"
)

// Snapshots says which snapshots the workers of a store keep.
type Snapshots struct {
	// Keep is how many newest snapshots of each session are kept.
	Keep int `yaml:"keep"`
	// MaxAge bounds their age; 0 means any. A session's newest is always kept.
	MaxAge time.Duration `yaml:"max_age"`
	// MaxBytes bounds one snapshot.
	MaxBytes int64 `yaml:"max_bytes"`
	// Prune is how often other snapshots, and data that nothing needs, are removed; 0 means
	// never.
	Prune time.Duration `yaml:"prune"`
}

// Hosts configures the care of the zone's hosts.
type Hosts struct {
	// Check is an interval; 0 means never.
	Check time.Duration `yaml:"check"`
	// Leftovers is an interval; 0 means never.
	Leftovers time.Duration `yaml:"leftovers"`
	// DenyRead are further paths that sandboxed commands must not read, absolute or below
	// the home folder of the host's user (~/).
	DenyRead []string `yaml:"deny_read"`
}

// Bounds are the most that sessions may ask for. Every worker needs the same.
type Bounds struct {
	// Sandbox is the largest sandbox mode; empty means any.
	Sandbox string `yaml:"sandbox"`
	// ApprovalPolicies are those that are allowed; empty means all.
	ApprovalPolicies []string `yaml:"approval_policies"`
	// Credentials are the ways in which sessions may get the credential of their seed; empty means
	// all.
	Credentials []string `yaml:"credentials"`
	// What is false is not allowed; nil is true.
	Hooks        *bool `yaml:"hooks"`
	Network      *bool `yaml:"network"`
	ForwardAgent *bool `yaml:"forward_agent"`
	Dir          *bool `yaml:"dir"`
	Exec         *bool `yaml:"exec"`
	// Hosts has further bounds of hosts with certain labels.
	Hosts []HostBounds `yaml:"hosts"`
}

// HostBounds are Bounds of the hosts that have all Labels.
type HostBounds struct {
	Labels           map[string]string `yaml:"labels"`
	Sandbox          string            `yaml:"sandbox"`
	ApprovalPolicies []string          `yaml:"approval_policies"`
	Credentials      []string          `yaml:"credentials"`
	Hooks            *bool             `yaml:"hooks"`
	Network          *bool             `yaml:"network"`
	ForwardAgent     *bool             `yaml:"forward_agent"`
	Dir              *bool             `yaml:"dir"`
	Exec             *bool             `yaml:"exec"`
}

// Ceiling returns the bounds of all hosts.
func (b Bounds) Ceiling() protocol.Ceiling {
	return HostBounds{Sandbox: b.Sandbox, ApprovalPolicies: b.ApprovalPolicies, Credentials: b.Credentials, Hooks: b.Hooks, Network: b.Network,
		ForwardAgent: b.ForwardAgent, Dir: b.Dir, Exec: b.Exec}.Ceiling()
}

// Ceiling returns the bounds without the labels.
func (h HostBounds) Ceiling() protocol.Ceiling {
	no := func(allowed *bool) bool { return allowed != nil && !*allowed }
	return protocol.Ceiling{Sandbox: h.Sandbox, ApprovalPolicies: h.ApprovalPolicies, Credentials: h.Credentials, NoHooks: no(h.Hooks), NoNetwork: no(h.Network),
		NoForwardAgent: no(h.ForwardAgent), NoDir: no(h.Dir), NoExec: no(h.Exec)}
}

// Codex's own defaults.
const (
	Issuer        = "https://auth.openai.com"
	TokenEndpoint = Issuer + "/oauth/token"
	UsageEndpoint = "https://chatgpt.com/backend-api/wham/usage"
)

// CodexVersion is the codex that this version of Fairlead was tested with.
const CodexVersion = "0.169.0"

// Default returns the config of an empty file.
func Default() *Config {
	return &Config{
		Zone:      "default",
		Authority: AuthorityLocal,
		Store:     Store{Tidy: 24 * time.Hour},
		Codex:     Codex{Version: CodexVersion},
		Log:       Log{Format: "json", Level: "info"},
		Limits:    Limits{Pumps: 1000, Watches: 1000, Bulk: 200, Commands: 200, Short: 400, StickyCache: 3000, Drain: 20 * time.Second, ConnectionsPerHost: 512, Watch: 25 * time.Second, Line: 32 << 20},
		Seeds:     Seeds{TokenEndpoint: TokenEndpoint, Issuer: Issuer, UsageEndpoint: UsageEndpoint, Maintain: time.Hour, Unprotected: "refuse", Credentials: protocol.CredentialsPlanted},
		Login:     defaultLogin(),
		Console:   Console{Lifetime: 12 * time.Hour},
		Metrics:   Metrics{Fleet: true},
		Models:    Models{Currency: "USD", Unknown: UnknownRefuse, Bodies: ModelBodies{Bytes: 1 << 20, SessionBytes: 64 << 20}},
		Deliver:   Deliver{MaxBytes: 64 << 20, SessionBytes: 1 << 30, SessionCalls: 1000},
		Snapshots: Snapshots{Keep: 10, MaxBytes: 20 << 30, Prune: 24 * time.Hour},
		Hosts:     Hosts{Check: 6 * time.Hour, Leftovers: 6 * time.Hour},
		Timeouts:  Timeouts{StartUp: time.Minute, Request: time.Minute, Silence: 2 * time.Minute, Quiet: 30 * time.Minute, Retry: 30 * time.Minute, Turn: 24 * time.Hour},
		lines:     map[string]int{},
	}
}

// Path returns the config's file; empty for Default.
func (c *Config) Path() string { return c.path }

// Since returns PayloadsSince, or zero.
func (t *Temporal) Since() (time.Time, error) { return timeOrZero(t.PayloadsSince) }

// WorkersSince returns WorkerPayloadSince, or zero.
func (t *Temporal) WorkersSince() (time.Time, error) { return timeOrZero(t.WorkerPayloadSince) }

// RequiredSince returns the later of AuthoritySince and Temporal.WorkerPayloadSince, or zero.
func (c *Config) RequiredSince() (time.Time, error) {
	since, err := timeOrZero(c.AuthoritySince)
	if err != nil {
		return since, err
	}
	marks, err := c.Temporal.WorkersSince()
	if marks.After(since) {
		since = marks
	}
	return since, err
}

func timeOrZero(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.RFC3339, text)
}
