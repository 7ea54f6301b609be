package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

// script is the model's script: it runs the item's command once. When it is
// told to continue, it first checks whether the command has begun.
func script(effects string) []byte {
	// The first message begins with the item's id, of four letters. After five
	// more characters come three with the duration of its command.
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

// batchFile returns the batch with the items. Each item may write only to its
// own folder: codex's sandbox creates something in each writable folder and
// removes it again, which would disturb others in the same folder. By default,
// an item that may have had effects is not retried.
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

// window is the number of slots and some more sessions that wait for one.
const window = 16
