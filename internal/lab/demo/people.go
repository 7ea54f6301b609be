package main

import (
	"context"
	"fmt"
	"strings"

	"fairlead.dev/fairlead/internal/lab"
)

// people are alice, who runs the session, bob, who decides, and mallory, whom the access file
// does not list. mallory reaches Temporal, and has its payload key.
var people *lab.People

const bindings = `  - {name: alice runs sessions, roles: [operator, host-operator, seed-admin], to: [alice]}
  - {name: bob decides what others began, roles: [approver], to: [bob], when: 'owner != who'}
`

func asBob(ctx context.Context, l *lab.Lab, args ...string) lab.Result {
	return l.Ctl(ctx, nil, append([]string{"--config", people.ConfigOf("bob")}, args...)...)
}

// refuseStranger has mallory and alice try to decide what bob is to decide.
func refuseStranger(ctx context.Context, l *lab.Lab, id string) error {
	if err := waits(ctx, l, id); err != nil {
		return err
	}
	for _, who := range []string{"mallory", "alice"} {
		fmt.Printf("  [%s] $ ctl approval accept %s\n", who, id)
		r := l.Ctl(ctx, nil, "--config", people.ConfigOf(who), "approval", "accept", id)
		for line := range strings.Lines(r.Stderr) {
			fmt.Printf("  [%s] %s\n", who, strings.TrimSuffix(line, "\n"))
		}
		fmt.Printf("  [%s] (exit %d)\n", who, r.Code)
		if r.Code != 6 {
			return fmt.Errorf("%s, who may not decide, was not refused: %w", who, r)
		}
	}
	return nil
}
