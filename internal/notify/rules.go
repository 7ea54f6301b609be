package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/strictyaml"
)

// Bounds of a file.
const (
	MaxFile     = 1 << 20
	maxDepth    = 20
	maxChannels = 100
	maxPeople   = 2000
	maxRules    = 300
)

// MaxNotices bounds the notices of one event.
const MaxNotices = 400

// Kinds of channels.
const (
	Webhook  = "webhook"
	Slack    = "slack"
	Mail     = "mail"
	Push     = "push"
	Shoutrrr = "shoutrrr"
)

var kinds = []string{Webhook, Slack, Mail, Push, Shoutrrr}

// Values of Details.
const (
	DetailsNone    = "none"
	DetailsSummary = "summary"
)

// Rules is a parsed file.
type Rules struct {
	// Digest is the SHA-256 of the file, in hex.
	Digest string
	file   file
	lines  map[string]int
	dir    string
	allow  []netip.Prefix
	url    string // of the console, without a slash at the end
	hide   bool   // no details
}

type file struct {
	Console string `yaml:"console"`
	// Details is none or summary: whether messages have the summary of a request, such as
	// the command.
	Details      string             `yaml:"details"`
	AllowPrivate []string           `yaml:"allow_private"` // addresses and networks
	Channels     map[string]channel `yaml:"channels"`
	People       []person           `yaml:"people"`
	Teams        []team             `yaml:"teams"`
	Rules        []rule             `yaml:"rules"`
	Limit        limit              `yaml:"limit"`
	RetryFor     time.Duration      `yaml:"retry_for"`
	// Looking is how long a new approval is held back from a person who has the inbox open.
	Looking time.Duration `yaml:"looking"`
}

// A channel has the fields of its kind.
type channel struct {
	Kind string `yaml:"kind"`
	// webhook; for push, an allowed beginning of endpoints is not needed
	URL        string `yaml:"url"`
	SecretFile string `yaml:"secret_file"`
	// slack
	TokenFile    string `yaml:"token_file"`
	AppTokenFile string `yaml:"app_token_file"`
	Decide       bool   `yaml:"decide"`  // people decide approvals by buttons
	Channel      string `yaml:"channel"` // where notices without a person go
	API          string `yaml:"api"`
	// mail
	Server       string `yaml:"server"`
	TLS          string `yaml:"tls"`
	CAFile       string `yaml:"ca_file"`
	User         string `yaml:"user"`
	PasswordFile string `yaml:"password_file"`
	From         string `yaml:"from"`
	To           string `yaml:"to"` // where notices without a person go
	// push
	KeyFile string `yaml:"key_file"`
	Contact string `yaml:"contact"`
	// shoutrrr
	URLFile   string `yaml:"url_file"`
	Unguarded bool   `yaml:"unguarded"`
}

type person struct {
	Name     string `yaml:"name"`
	Mail     string `yaml:"mail"`
	Slack    string `yaml:"slack"`
	PushFile string `yaml:"push_file"`
	Quiet    *quiet `yaml:"quiet"`
}

type quiet struct {
	From string `yaml:"from"`
	To   string `yaml:"to"`
	Zone string `yaml:"zone"`
	Then string `yaml:"then"` // hold or drop

	from, to time.Duration // since midnight
	zone     *time.Location
}

type team struct {
	Name    string   `yaml:"name"`
	Members []string `yaml:"members"`
}

type rule struct {
	Name     string        `yaml:"name"`
	Events   []string      `yaml:"events"`
	Sessions sessions      `yaml:"sessions"`
	To       []string      `yaml:"to"` // people, team:NAME, channel:NAME, owner
	By       []string      `yaml:"by"` // channels
	Before   time.Duration `yaml:"before"`
	Urgent   bool          `yaml:"urgent"`
}

// sessions selects sessions, by what all of its fields say. Labels are those by which the host
// was chosen.
type sessions struct {
	IDs     []string          `yaml:"ids"` // patterns with * and ?
	Owners  []string          `yaml:"owners"`
	Labels  map[string]string `yaml:"labels"`
	Origins []string          `yaml:"origins"` // person, batch, schedule, session
	Hosts   []string          `yaml:"hosts"`
	Seeds   []string          `yaml:"seeds"`
}

type limit struct {
	Messages int           `yaml:"messages"`
	Per      time.Duration `yaml:"per"`
}

const owner = "owner"

// A BrokenError has every mistake of a file.
type BrokenError struct{ Problems []strictyaml.Problem }

func (e *BrokenError) Error() string { return strictyaml.Tell("notification rules", e.Problems) }

// Parse reads a file of rules. Paths in it are relative to dir. The error is a *[BrokenError].
func Parse(data []byte, dir string) (*Rules, error) {
	broken := func(text string) error { return &BrokenError{[]strictyaml.Problem{{Text: text}}} }
	if len(data) > MaxFile {
		return nil, broken("it has more than 1 MiB")
	}
	if err := strictyaml.Shallow(data, maxDepth, false); err != nil {
		return nil, broken(err.Error())
	}
	sum := sha256.Sum256(data)
	r := &Rules{Digest: hex.EncodeToString(sum[:]), dir: dir}
	r.file = file{Details: DetailsNone, Limit: limit{Messages: 6, Per: 10 * time.Minute}, RetryFor: 24 * time.Hour, Looking: 2 * time.Minute}
	c := &checker{File: strictyaml.Read(data, &r.file), r: r}
	r.lines = c.Lines
	c.check()
	if len(c.Problems) > 0 {
		strictyaml.Sort(c.Problems)
		return nil, &BrokenError{c.Problems}
	}
	return r, nil
}

// Wants reports whether a rule names one of the kinds of events.
func (r *Rules) Wants(kinds ...string) bool {
	return slices.ContainsFunc(r.file.Rules, func(one rule) bool {
		return slices.ContainsFunc(kinds, func(k string) bool { return slices.Contains(one.Events, k) })
	})
}

// Leads returns how long before its expiry an approval is told as expiring: each time once.
func (r *Rules) Leads() (all []time.Duration) {
	for _, one := range r.file.Rules {
		if slices.Contains(one.Events, protocol.EventApprovalExpiring) && !slices.Contains(all, one.Before) {
			all = append(all, one.Before)
		}
	}
	slices.Sort(all)
	return all
}

// RetryFor is how long a message is tried.
func (r *Rules) RetryFor() time.Duration { return r.file.RetryFor }

// Repeatable reports whether the receiver of a channel drops a message that comes twice.
func (r *Rules) Repeatable(channel string) bool {
	switch r.file.Channels[channel].Kind {
	case Webhook, Push:
		return true
	}
	return false
}

// Private returns the files that no command of a session may read.
func (r *Rules) Private() (all []string) {
	add := func(name string) {
		if name != "" {
			all = append(all, r.path(name))
		}
	}
	for _, c := range r.file.Channels {
		for _, name := range []string{c.SecretFile, c.TokenFile, c.AppTokenFile, c.PasswordFile, c.KeyFile, c.URLFile} {
			add(name)
		}
	}
	for _, p := range r.file.People {
		add(p.PushFile)
	}
	slices.Sort(all)
	return all
}

// Standing describes the rules.
func (r *Rules) Standing() protocol.NotifyStanding {
	out := protocol.NotifyStanding{Digest: r.Digest}
	for name, c := range r.file.Channels {
		out.Channels = append(out.Channels, protocol.NotifyChannel{Name: name, Kind: c.Kind})
	}
	slices.SortFunc(out.Channels, func(a, b protocol.NotifyChannel) int { return strings.Compare(a.Name, b.Name) })
	for _, p := range r.file.People {
		v := protocol.NotifyPerson{Name: p.Name, Channels: r.channelsOf(p, nil)}
		if q := p.Quiet; q != nil {
			v.Quiet = q.From + " to " + q.To + " " + q.Zone + ", " + q.Then
		}
		out.People = append(out.People, v)
	}
	for i, one := range r.file.Rules {
		v := protocol.NotifyRule{Name: one.Name, Line: strictyaml.LineOf(r.lines, key("rules", i)), Events: one.Events, To: one.To, Sessions: one.Sessions.text()}
		if one.Before > 0 {
			v.Before = one.Before.String()
		}
		out.Rules = append(out.Rules, v)
	}
	const most = 200 // so that a workflow can carry it
	out.People, out.Rules = out.People[:min(len(out.People), most)], out.Rules[:min(len(out.Rules), most)]
	return out
}

func (r *Rules) person(name string) (person, bool) {
	i := slices.IndexFunc(r.file.People, func(p person) bool { return p.Name == name })
	if i < 0 {
		return person{}, false
	}
	return r.file.People[i], true
}

// channelsOf returns the channels by which a person can be reached, of those in by (nil means
// all), sorted.
func (r *Rules) channelsOf(p person, by []string) (all []string) {
	for name, c := range r.file.Channels {
		if by != nil && !slices.Contains(by, name) {
			continue
		}
		if c.Kind == Mail && p.Mail != "" || c.Kind == Slack && p.Slack != "" || c.Kind == Push && p.PushFile != "" {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// Limit returns how many messages one person gets by one channel in which time.
func (r *Rules) Limit() (messages int, per time.Duration) {
	return r.file.Limit.Messages, r.file.Limit.Per
}
