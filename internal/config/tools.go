package config

import (
	"slices"

	"fairlead.dev/fairlead/internal/protocol"
)

func (c *Config) checkToolQueues() (p []Problem) {
	add := func(format string, args ...any) { p = append(p, c.at("tools.activities", format, args...)) }
	for i, q := range c.Tools.Activities {
		n := i + 1
		if err := protocol.CheckToolQueue(q.Queue); err != nil {
			add("entry %d: queue %q: %v", n, shorten(q.Queue), err)
		}
		if slices.ContainsFunc(c.Tools.Activities[:i], func(o ToolQueue) bool { return o.Queue == q.Queue }) {
			add("entry %d: queue %q is there twice: put all its types into one entry", n, shorten(q.Queue))
		}
		if len(q.Types) == 0 {
			add("entry %d has no types: only the activities that it names are called", n)
		}
		for _, name := range q.Types {
			if err := protocol.CheckTemporalName(name); err != nil {
				add("entry %d: type %q: %v", n, shorten(name), err)
			}
		}
		switch {
		case q.KeyFile == "" && !q.Plain:
			add("entry %d has no key_file: arguments and answers are encrypted with what it has; say plain: true if they may be plain in Temporal", n)
		case q.KeyFile != "" && q.Plain:
			add("entry %d has key_file and plain: want one of them", n)
		}
	}
	return p
}
