package notify

import (
	"cmp"
	"fmt"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/strictyaml"
)

var (
	namePattern  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}$`)
	slackPattern = regexp.MustCompile(`^[A-Z0-9]{2,30}$`)
)

// A checker finds mistakes beyond the file's form.
type checker struct {
	*strictyaml.File
	r *Rules
}

func key(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

func (r *Rules) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(r.dir, name)
}

func (c *checker) check() {
	f := &c.r.file
	if f.Console != "" {
		u, err := url.Parse(f.Console)
		if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
			c.Add("console", "want the address of the console, such as https://fairlead.example.com")
		}
		c.r.url = strings.TrimRight(f.Console, "/")
	}
	if f.Details != DetailsNone && f.Details != DetailsSummary {
		c.Add("details", "want none or summary")
	}
	c.r.hide = f.Details != DetailsSummary
	for i, text := range f.AllowPrivate {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			var a netip.Addr
			if a, err = netip.ParseAddr(text); err == nil {
				p = netip.PrefixFrom(a, a.BitLen())
			}
		}
		if err != nil {
			c.Add(key("allow_private", i), "want an IP address or a network such as 10.1.0.0/16")
			continue
		}
		c.r.allow = append(c.r.allow, p.Masked())
	}
	if l := f.Limit; l.Messages < 1 || l.Messages > 1000 || l.Per < time.Second || l.Per > 24*time.Hour {
		c.Add("limit", "messages is between 1 and 1000, per between 1s and 24h")
	}
	if f.Looking < 0 || f.Looking > time.Hour {
		c.Add("looking", "%s is not between 0s and 1h", f.Looking)
	}
	if f.RetryFor < time.Second || f.RetryFor > 7*24*time.Hour {
		c.Add("retry_for", "%s is not between 1s and 168h", f.RetryFor)
	}
	for _, b := range []struct {
		key     string
		n, most int
	}{{"channels", len(f.Channels), maxChannels}, {"people", len(f.People), maxPeople}, {"rules", len(f.Rules), maxRules}} {
		if b.n > b.most {
			c.Add(b.key, "%d are too many: %d at most", b.n, b.most)
		}
	}
	for name, one := range f.Channels {
		c.channel(name, one)
	}
	c.people()
	c.rules()
}

func (c *checker) need(at, value, what string) {
	if value == "" {
		c.Add(at, "%s is missing", what)
	}
}

func (c *checker) channel(name string, one channel) {
	at := "channels." + name
	if !namePattern.MatchString(name) {
		c.Add(at, "a channel's name has letters, digits, and . _ @ + -")
	}
	var fields []string // of its kind
	switch one.Kind {
	case Webhook:
		fields = []string{"url", "secret_file"}
		if one.URL == "" || checkURL(one.URL) != nil {
			c.Add(cmp.Or(keyIf(one.URL != "", at+".url"), at), "a webhook needs url, such as https://hooks.example.com/fairlead (http only to this machine)")
		}
		c.need(at, one.SecretFile, "secret_file, the file with what signs the webhook (whsec_…),")
	case Slack:
		fields = []string{"token_file", "app_token_file", "decide", "channel", "api"}
		c.need(at, one.TokenFile, "token_file, the file with the bot's token (xoxb-…),")
		switch {
		case one.Decide && one.AppTokenFile == "":
			c.Add(at+".decide", "it needs app_token_file, the file with the app's token (xapp-…), by which workers hear of clicks")
		case one.Decide && c.r.file.Details != DetailsSummary:
			c.Add(at+".decide", "Slack then shows the command that is accepted, so it needs details: summary")
		case !one.Decide && one.AppTokenFile != "":
			c.Add(at+".app_token_file", "it is only for channels with decide: true")
		}
		if one.Channel != "" && !slackPattern.MatchString(one.Channel) {
			c.Add(at+".channel", "want the id of a channel, such as C0123456789")
		}
		if one.API != "" && checkURL(one.API) != nil {
			c.Add(at+".api", "want the address of the Web API, such as https://slack.com/api/")
		}
	case Mail:
		fields = []string{"server", "tls", "ca_file", "user", "password_file", "from", "to"}
		if _, _, err := net.SplitHostPort(one.Server); err != nil {
			c.Add(cmp.Or(keyIf(one.Server != "", at+".server"), at), "mail needs server, such as smtp.example.com:587")
		}
		if !slices.Contains([]string{"", "required", "implicit", "none"}, one.TLS) {
			c.Add(at+".tls", "want required (STARTTLS), implicit, or none")
		}
		if one.TLS == "none" && one.User != "" {
			c.Add(at+".tls", "with none, the password would cross the network in the clear")
		}
		if (one.User == "") != (one.PasswordFile == "") {
			c.Add(at, "user and password_file go together")
		}
		if _, err := mail.ParseAddress(one.From); err != nil {
			c.Add(cmp.Or(keyIf(one.From != "", at+".from"), at), "mail needs from, such as fairlead@example.com")
		}
		if _, err := mail.ParseAddress(one.To); one.To != "" && err != nil {
			c.Add(at+".to", "it is not an address such as team@example.com")
		}
	case Push:
		fields = []string{"key_file", "contact"}
		c.need(at, one.KeyFile, "key_file, the file with the VAPID key (`ctl notify keys` makes one),")
		if !strings.HasPrefix(one.Contact, "mailto:") && !strings.HasPrefix(one.Contact, "https://") {
			c.Add(cmp.Or(keyIf(one.Contact != "", at+".contact"), at), "push needs contact, for the push service: mailto:ops@example.com, or https://…")
		}
	case Shoutrrr:
		fields = []string{"url_file", "unguarded"}
		c.need(at, one.URLFile, "url_file, the file with the service's URL,")
	default:
		c.Add(cmp.Or(keyIf(one.Kind != "", at+".kind"), at), "kind is one of %s", strings.Join(kinds, ", "))
		return
	}
	for k := range c.Lines {
		if field, ok := strings.CutPrefix(k, at+"."); ok && field != "kind" && !slices.Contains(fields, field) && slices.Contains(channelFields, field) {
			c.Add(k, "a channel of kind %s has no such key: it has %s", one.Kind, strings.Join(fields, ", "))
		}
	}
}

var channelFields = []string{"url", "secret_file", "token_file", "app_token_file", "decide", "channel", "api", "server", "tls", "ca_file", "user", "password_file", "from", "to", "key_file", "contact", "url_file", "unguarded"}

func keyIf(ok bool, key string) string {
	if ok {
		return key
	}
	return ""
}

// checkURL allows https, and http to this machine.
func checkURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return fmt.Errorf("it is not a URL")
	}
	ip, iperr := netip.ParseAddr(u.Hostname())
	if u.Scheme != "https" && !(u.Scheme == "http" && (u.Hostname() == "localhost" || iperr == nil && ip.IsLoopback())) {
		return fmt.Errorf("want https")
	}
	return nil
}

func (c *checker) people() {
	seen := map[string]bool{}
	for i := range c.r.file.People {
		p, at := &c.r.file.People[i], key("people", i)
		switch {
		case !namePattern.MatchString(p.Name) || p.Name == owner:
			c.Add(at+".name", "a person's name has letters, digits, and . _ @ + -, and is not %s", owner)
		case seen[p.Name]:
			c.Add(at+".name", "%s is named before: each person once", p.Name)
		}
		seen[p.Name] = true
		if _, err := mail.ParseAddress(p.Mail); p.Mail != "" && err != nil {
			c.Add(at+".mail", "it is not an address such as ann@example.com")
		}
		if p.Slack != "" && !slackPattern.MatchString(p.Slack) {
			c.Add(at+".slack", "want the id of a member, such as U0123456789")
		}
		if p.Quiet != nil {
			c.quiet(at+".quiet", p.Quiet)
		}
		if p.Mail == "" && p.Slack == "" && p.PushFile == "" {
			c.Add(at, "nothing says how to reach %s: give mail, slack or push_file", p.Name)
		}
	}
	named := map[string]bool{}
	for i, t := range c.r.file.Teams {
		at := key("teams", i)
		switch {
		case !namePattern.MatchString(t.Name):
			c.Add(at+".name", "a team's name has letters, digits, and . _ @ + -")
		case named[t.Name]:
			c.Add(at+".name", "%s is named before: each team once", t.Name)
		}
		named[t.Name] = true
		for j, m := range t.Members {
			if !seen[m] {
				c.Add(key(at+".members", j), "%s is none of the people", m)
			}
		}
	}
}

func (c *checker) quiet(at string, q *quiet) {
	clock := func(at, text string) time.Duration {
		t, err := time.Parse("15:04", text)
		if err != nil {
			c.Add(at, "want a time of day such as \"22:00\"")
		}
		return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
	}
	q.from, q.to = clock(at+".from", q.From), clock(at+".to", q.To)
	if q.from == q.to {
		c.Add(at, "from and to are the same time")
	}
	q.Zone = cmp.Or(q.Zone, "UTC")
	zone, err := time.LoadLocation(q.Zone)
	if err != nil || q.Zone == "Local" {
		c.Add(at+".zone", "want a time zone such as Europe/Berlin")
		zone = time.UTC
	}
	q.zone = zone
	if q.Then = cmp.Or(q.Then, "hold"); q.Then != "hold" && q.Then != "drop" {
		c.Add(at+".then", "want hold (send it when the hours end) or drop")
	}
}

func (c *checker) rules() {
	f := c.r.file
	seen := map[string]bool{}
	for i, one := range f.Rules {
		at, before := key("rules", i), len(c.Problems)
		switch {
		case !namePattern.MatchString(one.Name):
			c.Add(at+".name", "a rule needs a name of letters, digits, and . _ @ + -")
		case seen[one.Name]:
			c.Add(at+".name", "%s is named before: each rule once", one.Name)
		}
		seen[one.Name] = true
		if len(one.Events) == 0 {
			c.Add(at, "events is missing: some of %s", strings.Join(protocol.NotifyEvents, ", "))
		}
		for j, e := range one.Events {
			if !slices.Contains(protocol.NotifyEvents, e) {
				c.Add(key(at+".events", j), "it is none of %s", strings.Join(protocol.NotifyEvents, ", "))
			}
		}
		expiring := slices.Contains(one.Events, protocol.EventApprovalExpiring)
		switch {
		case expiring && (one.Before < 10*time.Second || one.Before > 7*24*time.Hour):
			c.Add(cmp.Or(keyIf(one.Before != 0, at+".before"), at), "%s needs before, between 10s and 168h", protocol.EventApprovalExpiring)
		case !expiring && one.Before != 0:
			c.Add(at+".before", "it is only for %s", protocol.EventApprovalExpiring)
		}
		for j, p := range one.Sessions.IDs {
			if _, err := path.Match(p, "s1"); err != nil || p == "" {
				c.Add(key(at+".sessions.ids", j), "want the id of a session, or a pattern with * and ?")
			}
		}
		for j, o := range one.Sessions.Origins {
			if !slices.Contains(origins, o) {
				c.Add(key(at+".sessions.origins", j), "it is none of %s", strings.Join(origins, ", "))
			}
		}
		for j, by := range one.By {
			if ch, ok := f.Channels[by]; !ok {
				c.Add(key(at+".by", j), "%s is none of the channels", by)
			} else if ch.Kind == Webhook || ch.Kind == Shoutrrr {
				c.Add(key(at+".by", j), "a channel of kind %s reaches no single person: name it in to, as channel:%s", ch.Kind, by)
			}
		}
		if len(one.To) == 0 {
			c.Add(at, "to is missing: people, team:NAME, channel:NAME, or %s", owner)
		}
		for j, to := range one.To {
			c.to(key(at+".to", j), to, one.By)
		}
		if len(c.Problems) == before {
			if n := c.reach(one); n > MaxNotices {
				c.Add(at+".to", "rule %s makes %d notices of one event, for each person by each channel: %d at most. Name fewer people, or fewer channels in by", one.Name, n, MaxNotices)
			}
		}
	}
}

// reach returns how many notices a rule makes of one event. It does not count further once there
// are too many people.
func (c *checker) reach(one rule) int {
	who := map[string]bool{}
	channels, most := 0, 0
	for _, to := range one.To {
		if strings.HasPrefix(to, "channel:") {
			channels++
		} else if name, ok := strings.CutPrefix(to, "team:"); ok {
			i := slices.IndexFunc(c.r.file.Teams, func(t team) bool { return t.Name == name })
			for _, m := range c.r.file.Teams[i].Members {
				who[m] = true
			}
		} else if to == owner { // one who has all addresses, perhaps
			for name, ch := range c.r.file.Channels {
				if (ch.Kind == Mail || ch.Kind == Slack || ch.Kind == Push) && (one.By == nil || slices.Contains(one.By, name)) {
					most++
				}
			}
		} else {
			who[to] = true
		}
	}
	n := channels + most
	if len(who) > MaxNotices { // each is a notice at least
		return n + len(who)
	}
	for name := range who {
		p, _ := c.r.person(name)
		n += max(1, len(c.r.channelsOf(p, one.By)))
	}
	return n
}

var origins = []string{"person", "batch", "schedule", "session", "parent"}

func (c *checker) to(at, to string, by []string) {
	f := c.r.file
	if name, ok := strings.CutPrefix(to, "channel:"); ok {
		ch, known := f.Channels[name]
		switch {
		case !known:
			c.Add(at, "%s is none of the channels", name)
		case ch.Kind == Push:
			c.Add(at, "a push channel reaches people only: name them")
		case ch.Kind == Slack && ch.Channel == "", ch.Kind == Mail && ch.To == "":
			c.Add(at, "channel %s does not say where notices without a person go: give it %s", name, map[string]string{Slack: "channel", Mail: "to"}[ch.Kind])
		}
		return
	}
	if name, ok := strings.CutPrefix(to, "team:"); ok {
		if !slices.ContainsFunc(f.Teams, func(t team) bool { return t.Name == name }) {
			c.Add(at, "%s is none of the teams", name)
		}
		return
	}
	if to == owner {
		return
	}
	p, ok := c.r.person(to)
	switch {
	case !ok:
		c.Add(at, "%s is none of the people, and not %s", to, owner)
	case len(c.r.channelsOf(p, by)) == 0:
		c.Add(at, "no channel reaches %s: the person has no address for one", to)
	}
}
