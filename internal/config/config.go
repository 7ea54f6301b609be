package config

import "time"

// A Config is a config file with the defaults filled in.
type Config struct {
	Temporal Temporal `yaml:"temporal"`
	// Zone is the zone whose hosts this worker serves.
	Zone    string  `yaml:"zone"`
	Store   Store   `yaml:"store"`
	API     API     `yaml:"api"`
	Codex   Codex   `yaml:"codex"`
	Log     Log     `yaml:"log"`
	Limits  Limits  `yaml:"limits"`
	Metrics Metrics `yaml:"metrics"`
	Seeds   Seeds   `yaml:"seeds"`
	// Deliver bounds the files that codex may deliver.
	Deliver Deliver `yaml:"deliver"`
	// Snapshots says how many snapshots are kept, and how large they may be.
	Snapshots Snapshots `yaml:"snapshots"`
	Hosts     Hosts     `yaml:"hosts"`
	// SignWith is the key with which ctl signs decisions if a policy requires it: a
	// private key file, agent, or agent:SHA256:….
	SignWith string `yaml:"sign_with"`
	// Timeouts are the timeouts of sessions that ctl starts with this config.
	Timeouts Timeouts `yaml:"timeouts"`
	// Identity is the worker's name; the machine's host name by default.
	Identity string `yaml:"identity"`

	path  string
	lines map[string]int // line of each key in the file, such as store.url
}

// Temporal says how to reach Temporal.
type Temporal struct {
	Address   string `yaml:"address"`
	Namespace string `yaml:"namespace"`
	TLS       *TLS   `yaml:"tls"`
	// APIKeyFile is a file with a bearer key for Temporal.
	APIKeyFile string `yaml:"api_key_file"`
	// PayloadKey is the file of the keys that encrypt payloads in Temporal. If it is
	// empty, payloads are not encrypted.
	PayloadKey string `yaml:"payload_key"`
}

// TLS names certificate files. Paths are relative to the config file.
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
	// ID, if set, is the id that the store must have.
	ID string `yaml:"id"`
	// Tidy is how often blobs of messages, batches and schedules that nobody needs
	// any more are deleted; 0 means never.
	Tidy time.Duration `yaml:"tidy"`
}

// API says where the worker's HTTP API listens and how clients reach it.
type API struct {
	// Listen is unix:///path, or host:port. Anything but a unix socket or
	// a loopback address needs TLS and a token.
	Listen string `yaml:"listen"`
	// Address is the address at which others reach this API, if it differs from Listen,
	// such as https://worker-1.example:7443. ctl tries it first.
	Address string `yaml:"address"`
	TLS     *TLS   `yaml:"tls"`
	// TokenFile holds the bearer token that callers must show.
	TokenFile string `yaml:"token_file"`
	// CodecListen is the host:port of the codec endpoint, which decodes payloads for
	// Temporal's UI and CLI (http://host:port/codec). Empty or off means that there is
	// none. Anything but a loopback address needs TLS and a token.
	CodecListen string `yaml:"codec_listen"`
	// CodecOrigins are the origins of web pages that may use the codec endpoint, such as
	// http://127.0.0.1:8233 for the UI.
	CodecOrigins []string `yaml:"codec_origins"`
}

// CodecOff is the CodecListen of a stack without a codec endpoint.
const CodecOff = "off"

// Codex describes the codex that is copied to hosts.
type Codex struct {
	// Source is a folder with bin/codex and its siblings.
	Source  string `yaml:"source"`
	Version string `yaml:"version"`
	// AnyVersion lets sessions use a codex outside of the tested versions.
	AnyVersion bool `yaml:"any_version"`
}

// Log configures the worker's log.
type Log struct {
	Format string `yaml:"format"` // json, text
	Level  string `yaml:"level"`  // debug, info, warn, error
}

// Limits bound the work of one worker.
type Limits struct {
	// Pumps is the number of activities, mostly pumps, that run at once.
	Pumps int `yaml:"pumps"`
	// StickyCache is the number of workflows kept in memory.
	StickyCache int `yaml:"sticky_cache"`
	// Drain is how long running activities may take to hand over when the worker
	// stops.
	Drain time.Duration `yaml:"drain"`
	// ConnectionsPerHost bounds the connections of each kind (for commands, for bulk
	// data) to one host. No more are opened than needed.
	ConnectionsPerHost int `yaml:"connections_per_host"`
	// Watch is how often the processes of waiting sessions are checked.
	Watch time.Duration `yaml:"watch"`
	// Line bounds a line of codex's output, in bytes. Longer lines are reported and
	// skipped. All workers of a zone must use the same value, because transcripts depend on
	// it.
	Line int `yaml:"line"`
}

// Timeouts are the timeouts of sessions that ctl starts. Flags of ctl override them.
type Timeouts struct {
	StartUp time.Duration `yaml:"startup"` // codex's first answer
	Request time.Duration `yaml:"request"` // codex's answer to a request
	Silence time.Duration `yaml:"silence"` // time without output before codex is asked for a sign of life
	Quiet   time.Duration `yaml:"quiet"`   // silence of the model after a tool; 0 means unlimited
	Turn    time.Duration `yaml:"turn"`    // a whole turn, without the time in which it waits only for a person
}

// Metrics says where the worker serves Prometheus metrics. By default it serves none.
type Metrics struct {
	Listen string `yaml:"listen"`
	// Pprof also serves Go's profiler, at /debug/pprof.
	Pprof bool `yaml:"pprof"`
}

// Seeds configures the upkeep of logins.
type Seeds struct {
	// TokenEndpoint is the URL at which logins are refreshed. If it is not codex's own
	// default, codex on hosts is configured to use it too.
	TokenEndpoint string `yaml:"token_endpoint"`
	// Issuer is the URL of the issuer at which `ctl seed login` logs in.
	Issuer string `yaml:"issuer"`
	// Maintain is how often seeds whose last proof is old are verified; 0 means never. The
	// first worker of a namespace sets the interval, and each worker that starts later with
	// another value changes it.
	Maintain time.Duration `yaml:"maintain"`
	// Unprotected says what happens to a session with a seed on a host where codex cannot
	// keep the agent's commands from reading the credential. The session is refused, or it
	// is allowed and this is reported.
	Unprotected string `yaml:"unprotected"`
}

// Deliver bounds the files that codex may deliver in sessions that permit it.
type Deliver struct {
	// MaxBytes bounds one file, in bytes.
	MaxBytes int64 `yaml:"max_bytes"`
	// SessionBytes bounds all files of a session, each content counted once.
	SessionBytes int64 `yaml:"session_bytes"`
	// SessionCalls bounds the deliveries of a session, including failed ones.
	SessionCalls int `yaml:"session_calls"`
}

// Snapshots says which snapshots the workers of a store keep.
type Snapshots struct {
	// Keep is how many of the newest snapshots of each session are kept.
	Keep int `yaml:"keep"`
	// MaxAge is the maximum age of these snapshots; 0 means any age. The newest snapshot of
	// a session is kept at any age.
	MaxAge time.Duration `yaml:"max_age"`
	// MaxBytes bounds the content of one snapshot, in bytes.
	MaxBytes int64 `yaml:"max_bytes"`
	// Prune is how often all other snapshots are dropped, and data that nothing needs is
	// removed from the store; 0 means never.
	Prune time.Duration `yaml:"prune"`
}

// Hosts configures the upkeep of the hosts in the worker's zone.
type Hosts struct {
	// Check is how often the hosts are checked; 0 means never.
	Check time.Duration `yaml:"check"`
	// Leftovers is how often the hosts are searched for leftovers of sessions; 0 means
	// never.
	Leftovers time.Duration `yaml:"leftovers"`
}

// Codex's own defaults.
const (
	Issuer        = "https://auth.openai.com"
	TokenEndpoint = Issuer + "/oauth/token"
)

// CodexVersion is the codex that this version of Fairlead was tested with.
const CodexVersion = "0.169.0"

// Default returns the config of an empty file.
func Default() *Config {
	return &Config{
		Zone:      "default",
		Store:     Store{Tidy: 24 * time.Hour},
		Codex:     Codex{Version: CodexVersion},
		Log:       Log{Format: "json", Level: "info"},
		Limits:    Limits{Pumps: 1000, StickyCache: 3000, Drain: 20 * time.Second, ConnectionsPerHost: 512, Watch: 25 * time.Second, Line: 32 << 20},
		Seeds:     Seeds{TokenEndpoint: TokenEndpoint, Issuer: Issuer, Maintain: time.Hour, Unprotected: "refuse"},
		Deliver:   Deliver{MaxBytes: 64 << 20, SessionBytes: 1 << 30, SessionCalls: 1000},
		Snapshots: Snapshots{Keep: 10, MaxBytes: 20 << 30, Prune: 24 * time.Hour},
		Hosts:     Hosts{Check: 6 * time.Hour, Leftovers: 6 * time.Hour},
		Timeouts:  Timeouts{StartUp: time.Minute, Request: time.Minute, Silence: 2 * time.Minute, Quiet: 30 * time.Minute, Turn: 24 * time.Hour},
		lines:     map[string]int{},
	}
}

// Path returns the file that the config was read from; empty for Default.
func (c *Config) Path() string { return c.path }
