package config

import "time"

// A Config is a whole config file with the defaults filled in.
type Config struct {
	Temporal Temporal `yaml:"temporal"`
	// Zone is the zone whose hosts this worker looks after.
	Zone    string  `yaml:"zone"`
	Store   Store   `yaml:"store"`
	API     API     `yaml:"api"`
	Codex   Codex   `yaml:"codex"`
	Log     Log     `yaml:"log"`
	Limits  Limits  `yaml:"limits"`
	Metrics Metrics `yaml:"metrics"`
	Seeds   Seeds   `yaml:"seeds"`
	// Deliver bounds what codex may hand over.
	Deliver Deliver `yaml:"deliver"`
	// Snapshots says how many are kept, and how large they may be.
	Snapshots Snapshots `yaml:"snapshots"`
	Hosts     Hosts     `yaml:"hosts"`
	// SignWith is what ctl signs decisions with where a policy wants that: the
	// file of a private key, agent, or agent:SHA256:….
	SignWith string `yaml:"sign_with"`
	// Timeouts are those of sessions that are begun with this config.
	Timeouts Timeouts `yaml:"timeouts"`
	// Identity is the worker's name among workers; the host's by default.
	Identity string `yaml:"identity"`

	path  string
	lines map[string]int // key, such as store.url → line in the file
}

// Temporal says how Temporal is reached.
type Temporal struct {
	Address   string `yaml:"address"`
	Namespace string `yaml:"namespace"`
	TLS       *TLS   `yaml:"tls"`
	// APIKeyFile holds a bearer key for Temporal; never the key itself.
	APIKeyFile string `yaml:"api_key_file"`
	// PayloadKey is the file of the keys with which what Temporal keeps is
	// encrypted; none: it is kept in the clear.
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
	// ID, when set, is the id that the store must have.
	ID string `yaml:"id"`
	// Tidy is how often what messages, batches and schedules left in it is
	// deleted that nobody can ask for any more; 0 is never.
	Tidy time.Duration `yaml:"tidy"`
}

// API says where the worker's HTTP API listens and how ctl reaches it.
type API struct {
	// Listen is unix:///path, or host:port. Anything but a unix socket or
	// a loopback address needs TLS and a token.
	Listen string `yaml:"listen"`
	// Address is how others reach this API, when it differs from Listen:
	// https://worker-1.example:7443. ctl asks here first.
	Address string `yaml:"address"`
	TLS     *TLS   `yaml:"tls"`
	// TokenFile holds the bearer token that callers must show.
	TokenFile string `yaml:"token_file"`
	// CodecListen is host:port, where Temporal's UI and CLI have payloads
	// decoded (http://host:port/codec); empty or off: nowhere. Anything but a
	// loopback address needs TLS and a token.
	CodecListen string `yaml:"codec_listen"`
	// CodecOrigins are the origins of the UI's pages, which may ask from a
	// browser: http://127.0.0.1:8233.
	CodecOrigins []string `yaml:"codec_origins"`
}

// CodecOff is the CodecListen of a stack that is to have no codec endpoint.
const CodecOff = "off"

// Codex is the codex that is brought to hosts.
type Codex struct {
	// Source is a folder with bin/codex and its siblings.
	Source  string `yaml:"source"`
	Version string `yaml:"version"`
	// AnyVersion lets sessions talk to a codex outside of the tested versions.
	AnyVersion bool `yaml:"any_version"`
}

// Log says how the worker logs.
type Log struct {
	Format string `yaml:"format"` // json, text
	Level  string `yaml:"level"`  // debug, info, warn, error
}

// Limits bound what one worker takes on.
type Limits struct {
	// Pumps is how many activities, pumps above all, run at once.
	Pumps int `yaml:"pumps"`
	// StickyCache is how many workflows are kept in memory.
	StickyCache int `yaml:"sticky_cache"`
	// Drain is how long running activities may take to hand over at a stop.
	Drain time.Duration `yaml:"drain"`
	// ConnectionsPerHost bounds the connections of each kind (for commands, for
	// bulk data) to one host. There are as few as will do.
	ConnectionsPerHost int `yaml:"connections_per_host"`
	// Watch is how often the processes of waiting sessions are looked at.
	Watch time.Duration `yaml:"watch"`
	// Line is the longest line of codex's, in bytes, that is read whole.
	// Longer ones are reported and skipped. All workers of a zone need the
	// same: a transcript depends on it.
	Line int `yaml:"line"`
}

// Timeouts say how long codex and the model may take in sessions that ctl
// begins, where its flags do not say otherwise.
type Timeouts struct {
	StartUp time.Duration `yaml:"startup"` // codex's first answer
	Request time.Duration `yaml:"request"` // its answer to a request
	Silence time.Duration `yaml:"silence"` // without a word, before it is asked for a sign of life
	Quiet   time.Duration `yaml:"quiet"`   // of the model after a tool; 0 is any time
	Turn    time.Duration `yaml:"turn"`    // a whole turn, but for the time in which only a person is waited for
}

// Metrics says where Prometheus finds the worker's; nowhere by default.
type Metrics struct {
	Listen string `yaml:"listen"`
	// Pprof also shows what Go's profiler sees, at /debug/pprof.
	Pprof bool `yaml:"pprof"`
}

// Seeds says how logins are looked after.
type Seeds struct {
	// TokenEndpoint is where logins are refreshed. Where it is not codex's
	// own, codex on hosts is told to use it too.
	TokenEndpoint string `yaml:"token_endpoint"`
	// Issuer is where `ctl seed login` logs in.
	Issuer string `yaml:"issuer"`
	// Maintain is how often seeds whose last proof is old are verified; 0 is
	// never. The first worker that starts decides for its namespace, and each
	// that starts with another value changes it.
	Maintain time.Duration `yaml:"maintain"`
	// Unprotected says what becomes of a session with a seed on a host where
	// codex cannot keep the agent's commands from the credential: refuse, or
	// allow, and say so.
	Unprotected string `yaml:"unprotected"`
}

// Deliver bounds what codex may hand over in sessions that let it.
type Deliver struct {
	// MaxBytes is the size of one file, in bytes.
	MaxBytes int64 `yaml:"max_bytes"`
	// SessionBytes is that of all files of a session, each content counted once.
	SessionBytes int64 `yaml:"session_bytes"`
	// SessionCalls is how often a session may hand something over, or try.
	SessionCalls int `yaml:"session_calls"`
}

// Snapshots says what of them the workers of a store keep.
type Snapshots struct {
	// Keep is how many of each session are kept: the newest ones.
	Keep int `yaml:"keep"`
	// MaxAge is how old those may be; 0 is any age. The newest of a session is
	// kept however old it is.
	MaxAge time.Duration `yaml:"max_age"`
	// MaxBytes bounds what one snapshot holds, in bytes.
	MaxBytes int64 `yaml:"max_bytes"`
	// Prune is how often what is not kept is dropped, and what nothing needs
	// is removed from the store; 0 is never.
	Prune time.Duration `yaml:"prune"`
}

// Hosts says how the hosts of the worker's zone are looked after.
type Hosts struct {
	// Check is how often they are checked; 0 is never.
	Check time.Duration `yaml:"check"`
	// Leftovers is how often somebody looks what sessions left on them; 0 is
	// never.
	Leftovers time.Duration `yaml:"leftovers"`
}

// What codex itself uses.
const (
	Issuer        = "https://auth.openai.com"
	TokenEndpoint = Issuer + "/oauth/token"
)

// CodexVersion is the codex that this version of Fairlead is tested with.
const CodexVersion = "0.169.0"

// Default is the config of an empty file.
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

// Path is the file that the config was read from; empty for Default.
func (c *Config) Path() string { return c.path }
