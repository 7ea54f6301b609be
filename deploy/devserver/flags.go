package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/server/common/dynamicconfig"
)

const defaultRetention = 30 * 24 * time.Hour

// options is a checked command line.
type options struct {
	ip        string
	port      int // 0: any
	uiIP      string
	uiPort    int  // 0: any
	uiPortSet bool // otherwise port+1000 is preferred
	headless  bool
	tls       tlsFiles
	login     string // key file of the UI's login; empty: no login
	codec     string // the UI's; may be empty
	// codecUpstream is where the UI's server passes what comes to codecPath on to. It shows
	// the token in the file codecUpstreamToken there. Whoever shows the one in codecToken
	// needs no login. All may be empty.
	codecUpstream, codecUpstreamToken, codecToken string
	db                                            string // absolute, or empty for memory
	pragmas                                       map[string]string
	postgres                                      postgres
	frontends                                     int
	namespaces                                    []string
	retention                                     time.Duration
	attributes                                    attributes
	dynamic                                       dynamicconfig.ConfigValueMap
	logLevel                                      string
	logFormat                                     string
}

var errHelp = errors.New("help asked for")

type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

type raw struct {
	options
	namespaces, pragmas, dynamic, attributes list
}

func flagSet(r *raw) *flag.FlagSet {
	fs := flag.NewFlagSet("devserver server start-dev", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&r.ip, "ip", "127.0.0.1", "`address` on which the frontend listens")
	fs.IntVar(&r.port, "port", 7233, "`number` of the frontend's port; 0: chosen by the operating system")
	fs.Var(&r.namespaces, "namespace", "`name` of a namespace to have; repeatable; none: default")
	fs.DurationVar(&r.retention, "retention", defaultRetention, "`time` for which closed workflows are kept, such as 720h")
	fs.StringVar(&r.db, "db-filename", "", "SQLite `file` that keeps everything; none: memory")
	fs.StringVar(&r.postgres.url, "postgres", "", "`postgres://USER@HOST:PORT` of a PostgreSQL server that keeps everything in place of a file, with settings as Temporal has them")
	fs.StringVar(&r.postgres.database, "postgres-database", "temporal", "`name` of its database; that of visibility is called NAME"+visibilitySuffix+"; both are made if they are missing")
	fs.StringVar(&r.postgres.passwordFile, "postgres-password", "", "`file` with the password of that user")
	fs.IntVar(&r.frontends, "frontends", 1, "`number` of frontends behind --port; more than one needs --postgres")
	fs.Var(&r.pragmas, "sqlite-pragma", "SQLite pragma `k=v`; repeatable")
	fs.Var(&r.attributes, "search-attribute", "`name=type` of a search attribute to have; repeatable")
	fs.Var(&r.dynamic, "dynamic-config-value", "server setting `key=value`, the value as JSON or a plain word; repeatable")
	fs.BoolVar(&r.headless, "headless", false, "no Web UI")
	fs.StringVar(&r.uiIP, "ui-ip", "", "`address` on which the Web UI listens; none: that of --ip")
	fs.IntVar(&r.uiPort, "ui-port", 0, "`number` of the Web UI's port; 0: chosen by the operating system; none: --port + 1000 if free")
	fs.StringVar(&r.codec, "ui-codec-endpoint", "", "`URL` at which the Web UI has payloads decoded")
	fs.StringVar(&r.codecUpstream, "ui-codec-upstream", "", "unix:///path or http:// `URL` to which the Web UI's server passes "+codecPath+" on")
	fs.StringVar(&r.codecUpstreamToken, "ui-codec-upstream-token", "", "`file` with the bearer token that is shown there")
	fs.StringVar(&r.codecToken, "ui-codec-token", "", "`file` with a bearer token that opens "+codecPath+" without a login")
	fs.StringVar(&r.login, "ui-login", "", "`file` for the key of one-time links, made anew at each start; the Web UI then needs a login")
	fs.StringVar(&r.tls.ca, "tls-ca", "", "`file` of the authority that signs clients' certificates; with --tls-cert and --tls-key, every connection needs one")
	fs.StringVar(&r.tls.cert, "tls-cert", "", "`file` of the server's certificate, which is for servers and for clients")
	fs.StringVar(&r.tls.key, "tls-key", "", "`file` of its key")
	fs.StringVar(&r.logLevel, "log-level", "warn", "`level` from which on to log: debug, info, warn, error or never")
	fs.StringVar(&r.logFormat, "log-format", "json", "`format` of the log: json, text or pretty")
	return fs
}

func usage() string {
	var b strings.Builder
	b.WriteString("usage: devserver server start-dev [flags]\n       devserver version\n\n")
	fs := flagSet(new(raw))
	fs.VisitAll(func(f *flag.Flag) {
		name, text := flag.UnquoteUsage(f)
		fmt.Fprintf(&b, "  --%-36s %s", strings.TrimSpace(f.Name+" "+name), text)
		if f.DefValue != "" && f.DefValue != "false" && f.Name != "ui-port" {
			fmt.Fprintf(&b, " (%s)", f.DefValue)
		}
		b.WriteByte('\n')
	})
	return b.String()
}

// parse checks the arguments after "server start-dev". Every error names the flag and what
// it takes.
func parse(args []string) (*options, error) {
	var r raw
	fs := flagSet(&r)
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, errHelp
		}
		text := strings.Replace(err.Error(), "flag provided but not defined: -", "unknown flag --", 1)
		return nil, fmt.Errorf("%s (devserver server start-dev --help lists the flags)", text)
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q: flags only (devserver server start-dev --help lists them)", fs.Arg(0))
	}
	fs.Visit(func(f *flag.Flag) { r.uiPortSet = r.uiPortSet || f.Name == "ui-port" })
	o := &r.options
	checks := []func() error{
		o.checkAddresses,
		o.checkTLS,
		o.checkUI,
		o.checkFile,
		func() error { return o.takePragmas(r.pragmas) },
		func() error { return o.takeNamespaces(r.namespaces) },
		func() error { return o.takeAttributes(r.attributes) },
		func() error { return o.takeDynamic(r.dynamic) },
		o.checkPostgres,
		o.checkLog,
	}
	var errs []error
	for _, check := range checks {
		errs = append(errs, check())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return o, nil
}

func (o *options) checkAddresses() error {
	if o.uiIP == "" {
		o.uiIP = o.ip
	}
	for _, f := range []struct {
		name string
		ip   *string
		port int
	}{{"", &o.ip, o.port}, {"ui-", &o.uiIP, o.uiPort}} {
		if *f.ip == "localhost" {
			*f.ip = "127.0.0.1"
		}
		if net.ParseIP(*f.ip) == nil {
			return fmt.Errorf("--%sip: %q is not an IP address", f.name, *f.ip)
		}
		if f.port < 0 || f.port > 65535 {
			return fmt.Errorf("--%sport: %d is not a port: use 0 to 65535", f.name, f.port)
		}
	}
	if o.port != 0 && o.port == o.uiPort && o.ip == o.uiIP && !o.headless {
		return fmt.Errorf("--port and --ui-port are both %d: the frontend and the Web UI need one each", o.port)
	}
	if u, err := url.Parse(o.codec); o.codec != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("--ui-codec-endpoint: %q is not an http or https URL", o.codec)
	}
	return nil
}

func (o *options) checkUI() error {
	if o.login != "" && !o.headless && !net.ParseIP(o.uiIP).IsLoopback() {
		return fmt.Errorf("--ui-login: the Web UI at %s would show its cookies to the network: use a loopback address", o.uiIP)
	}
	if o.codecUpstream == "" {
		return nil
	}
	if path, ok := strings.CutPrefix(o.codecUpstream, "unix://"); ok && filepath.IsAbs(path) {
		return nil
	}
	if u, err := url.Parse(o.codecUpstream); err != nil || u.Scheme != "http" || u.Host == "" || u.Path != "" {
		return fmt.Errorf("--ui-codec-upstream: %q is neither unix:///path nor http://host:port", o.codecUpstream)
	}
	return nil
}

func (o *options) checkFile() error {
	if o.retention < time.Hour {
		return fmt.Errorf("--retention: %s is too short: Temporal keeps closed workflows for 1h at least", o.retention)
	}
	if o.db == "" {
		return nil
	}
	abs, err := filepath.Abs(o.db)
	if err != nil {
		return fmt.Errorf("--db-filename: %w", err)
	}
	o.db = abs
	return nil
}

var pragmaName = regexp.MustCompile(`^[a-z_]+$`)

func (o *options) takePragmas(l list) error {
	o.pragmas = make(map[string]string)
	for _, s := range l {
		k, v, ok := strings.Cut(s, "=")
		if !ok || v == "" || !pragmaName.MatchString(k) {
			return fmt.Errorf("--sqlite-pragma: %q is not k=v, such as journal_mode=wal", s)
		}
		o.pragmas[k] = v
	}
	return nil
}

var namespaceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,253}$`)

func (o *options) takeNamespaces(l list) error {
	for _, s := range l {
		if !namespaceName.MatchString(s) {
			return fmt.Errorf("--namespace: %q is not a name of letters, digits, dots, dashes and underscores", s)
		}
		if !slices.Contains(o.namespaces, s) {
			o.namespaces = append(o.namespaces, s)
		}
	}
	if len(o.namespaces) == 0 {
		o.namespaces = []string{"default"}
	}
	return nil
}

func (o *options) takeAttributes(l list) error {
	o.attributes = ownAttributes()
	for _, s := range l {
		if err := o.attributes.add(s); err != nil {
			return fmt.Errorf("--search-attribute: %w", err)
		}
	}
	return nil
}

func (o *options) takeDynamic(l list) (err error) {
	if o.dynamic, err = dynamicValues(l); err != nil {
		return fmt.Errorf("--dynamic-config-value: %w", err)
	}
	return nil
}

func (o *options) checkLog() error {
	if levels := []string{"debug", "info", "warn", "error", "never"}; !slices.Contains(levels, o.logLevel) {
		return fmt.Errorf("--log-level: %q is none of %s", o.logLevel, strings.Join(levels, ", "))
	}
	if formats := []string{"json", "text", "pretty"}; !slices.Contains(formats, o.logFormat) {
		return fmt.Errorf("--log-format: %q is none of %s", o.logFormat, strings.Join(formats, ", "))
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}

// hostPort is an address that this machine can dial.
func hostPort(ip string, port int) string {
	if a := net.ParseIP(ip); a.IsUnspecified() {
		ip = "127.0.0.1"
		if a.To4() == nil {
			ip = "::1"
		}
	}
	return net.JoinHostPort(ip, strconv.Itoa(port))
}
