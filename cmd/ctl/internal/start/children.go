package start

import (
	"slices"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

// The text and an example for --children.
const (
	childrenHelp    = "the agent may start up to `N` sessions with the tools start_session and wait_session. N can also be max=N,depth=D,host=NAME,seed=NAME,seed-pool=NAME,model=NAME,keep: max counts the sessions at all depths together (at most 64), depth is that of the tree (1 to 3), and the names are what the agent may choose (repeatable; otherwise as in this session). The sessions are closed when this one ends, unless keep is given"
	childrenExample = "--children 4, or --children max=8,depth=2,model=gpt-6.1-sol,seed-pool=team"
)

// parseChildren reads --children.
func parseChildren(text string) (*protocol.Children, error) {
	bad := func(format string, args ...any) error {
		return core.Usage("--children: "+format, args...).Hinted("%s", childrenExample)
	}
	c := &protocol.Children{}
	number := func(name, value string, to *int) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			return bad("%s=%s: want a whole number, at least 1", name, value)
		}
		*to = n
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, given := strings.Cut(strings.TrimSpace(part), "=")
		var err error
		switch {
		case !given && name == "keep":
			c.Keep = true
		case !given && c.Max == 0:
			err = number("max", name, &c.Max)
		case !given || value == "":
			err = bad("%q is not one of max=N, depth=D, host=NAME, seed=NAME, seed-pool=NAME, model=NAME, keep", part)
		case name == "max":
			err = number(name, value, &c.Max)
		case name == "depth":
			err = number(name, value, &c.Depth)
		case name == "host":
			c.Hosts = append(c.Hosts, value)
		case name == "seed":
			c.Seeds = append(c.Seeds, value)
		case name == "seed-pool":
			c.SeedPools = append(c.SeedPools, value)
		case name == "model":
			c.Models = append(c.Models, value)
		default:
			err = bad("%q is not one of max=N, depth=D, host=NAME, seed=NAME, seed-pool=NAME, model=NAME, keep", part)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, names := range [][]string{c.Hosts, c.Seeds, c.SeedPools, c.Models} {
		slices.Sort(names) // equal sets are equal requests
	}
	if err := c.Check(); err != nil {
		return nil, bad("%v", err)
	}
	return c, nil
}
