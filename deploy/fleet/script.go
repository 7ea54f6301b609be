package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

// script is what the model does: it runs the item's command, once. Told to go
// on, it looks first, as it was told.
func script(effects string) []byte {
	// The first message begins with the item's id, of four letters, and says
	// after five more how long its command takes, in three.
	do := `f=%s/{{ slice .FirstUser 0 4 }}/effects; s={{ slice .FirstUser 9 12 }}; if [ -e $f ]; then echo it had begun; else ` +
		`echo "begin $(uname -n) $(date +%%s.%%N)" >>$f; sleep $s; echo "end $(uname -n) $(date +%%s.%%N)" >>$f; echo it is done; fi`
	once := `f=%s/{{ slice .FirstUser 0 4 }}/effects; s={{ slice .FirstUser 9 12 }}; ` +
		`echo "begin $(uname -n) $(date +%%s.%%N)" >>$f; sleep $s; echo "end $(uname -n) $(date +%%s.%%N)" >>$f; echo it is done`
	return fmt.Appendf(nil, `
rules:
- name: go on
  when: {contains: was interrupted and has been started again}
  steps:
  - - say: I shall look.
    - shell: {cmd: '%s', yield: 30s}
  - say: 'Item {{ slice .FirstUser 0 4 }}: {{ trim .LastToolOutput }}'
- name: item
  when: {contains: seconds of work}
  steps:
  - - shell: {cmd: '%s', yield: 30s}
  - say: 'Item {{ slice .FirstUser 0 4 }}: {{ trim .LastToolOutput }}'
`, fmt.Sprintf(do, effects), fmt.Sprintf(once, effects))
}

// batchFile is the batch of the items. Each may write to a folder of its own:
// codex's sandbox puts something into each folder that may be written, and takes
// it away, which others in the same one would stumble over. What may have had effects is not tried
// again: that is how it is if nobody says otherwise.
func batchFile(items []item, effects string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `id: %s
window: %d
retry: {attempts: 4, wait: 2s}
prompt: "{{.id}} for {{.seconds}} seconds of work"
defaults: {seed: team, label: [fleet=yes]}
items:
`, batchName, window)
	for _, it := range items {
		fmt.Fprintf(&b, "  - {id: %s, vars: {id: %s, seconds: \"%.1f\"}, zone: %s, write: [%q]%s}\n", it.id, it.id, it.seconds, it.zone, filepath.Join(effects, it.id), it.flags)
	}
	return b.String()
}

const batchName = "fleet"

// window is as many sessions as there are slots, and some that wait for one.
const window = 16
