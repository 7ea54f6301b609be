package config

import (
	"fmt"
	"net/netip"

	"fairlead.dev/fairlead/internal/egress/rule"
)

// maxPrivate bounds egress.private.
const maxPrivate = 64

// Rules returns what sessions may reach. Both were checked.
func (e Egress) Rules() (allow []rule.Rule, private []netip.Prefix, err error) {
	if allow, err = rule.ParseAll(e.Allow); err != nil {
		return nil, nil, err
	}
	for _, text := range e.Private {
		p, err := netip.ParsePrefix(text)
		if err != nil || p != p.Masked() {
			return nil, nil, fmt.Errorf("%q is no range of addresses such as 10.1.0.0/16", shorten(text))
		}
		private = append(private, p)
	}
	return allow, private, nil
}

func (c *Config) checkEgress() (p []Problem) {
	if _, _, err := (Egress{Allow: c.Egress.Allow}).Rules(); err != nil {
		p = append(p, c.at("egress.allow", "%v", err))
	}
	if _, _, err := (Egress{Private: c.Egress.Private}).Rules(); err != nil {
		p = append(p, c.at("egress.private", "%v", err))
	}
	if n := len(c.Egress.Private); n > maxPrivate {
		p = append(p, c.at("egress.private", "it has %d ranges, at most %d", n, maxPrivate))
	}
	return p
}
