package main

import (
	"fmt"
	"strings"
)

// words is a long message: 2 s of stream at the script's pace.
var words = func() string {
	var w []string
	for n := range 200 {
		w = append(w, fmt.Sprintf("w%d", n))
	}
	return strings.Join(w, " ")
}()

// script is the model's script. Each prompt names its session, which is also
// the name of the gate that it waits at. Each command appends a line to
// effects.txt whenever it takes effect.
var script = fmt.Sprintf(`
pace: 10ms
rules:
- name: first
  when: {contains: what was first}
  reply: 'The first was: {{ .FirstUser }}'
- name: stream
  when: {contains: stream it, matches: 'for (r[0-9a-f]+-\S+)'}
  steps:
  - - say: '%[1]s'
    - wait: {gate: '{{ index .Match 1 }}', after: 12}
    - shell: {cmd: 'echo streamed >>effects.txt; echo it ran', yield: 20s}
  - say: 'Then {{ trim .LastToolOutput }} for {{ index .Match 1 }}.'
- name: a policy is asked
  when: {contains: ask a policy, matches: 'for (r[0-9a-f]+-\S+)'}
  steps:
  - - say: I shall ask.
    - wait: '{{ index .Match 1 }}'
    - shell: {cmd: 'echo one >>effects.txt; echo one ran', escalate: true, justification: "to see it run", yield: 20s}
  - say: 'It said {{ trim .LastToolOutput }} for {{ index .Match 1 }}.'
- name: a command too many
  when: {contains: use up the commands, matches: 'for (r[0-9a-f]+-\S+)'}
  steps:
  - - shell: {cmd: 'echo first >>effects.txt', yield: 20s}
  - - wait: '{{ index .Match 1 }}'
    - shell: {cmd: 'echo over >>effects.txt; sleep 60', yield: 60s}
- name: a file is handed over
  when: {contains: hand over a file, matches: 'for (r[0-9a-f]+-\S+)'}
  steps:
  - - shell: {cmd: "printf 'all is well\n' >report.md", yield: 20s}
  - - wait: '{{ index .Match 1 }}'
    - call: {name: deliver, arguments: {path: report.md}}
  - say: 'I was told: {{ trim .LastToolOutput }} for {{ index .Match 1 }}.'
- name: a file came along
  when: {contains: look into the file, matches: '(?s)for (r[0-9a-f]+-\d+).* (/\S+\.txt)'}
  steps:
  - - shell: {cmd: 'cat {{ index .Match 2 }} >>effects.txt; echo >>effects.txt; cat {{ index .Match 2 }}', yield: 20s}
  - say: 'The file says {{ trim .LastToolOutput }} for {{ index .Match 1 }}.'
- name: a review
  when: {contains: look at the patch, matches: 'for (r[0-9a-f]+-\S+)'}
  steps:
  - - wait: '{{ index .Match 1 }}'
    - say: It is a fine patch.
- name: a summary
  when: {contains: CONTEXT CHECKPOINT}
  steps:
  - - wait: '{{ slice .FirstUser 11 }}' # behind "hello from "
    - say: So far nothing was done.
- name: command
  when: {contains: ask for a command, matches: 'for (r[0-9a-f]+-\S+)'}
  steps:
  - - say: I need a command.
    - shell: {cmd: 'echo one >>effects.txt; echo one ran', escalate: true, justification: "to see it run", yield: 20s}
  - say: 'It said {{ trim .LastToolOutput }} for {{ index .Match 1 }}.'
- name: two commands
  when: {contains: ask for two commands, matches: 'for (r[0-9a-f]+-\S+)'}
  steps:
  - - shell: {cmd: 'echo one >>effects.txt; echo one ran', escalate: true, justification: "first", yield: 20s}
    - shell: {cmd: 'echo two >>effects.txt; echo two ran', escalate: true, justification: "second", yield: 20s}
  - say: 'They said {{ trim (index .Results 0).Output }} and {{ trim (index .Results 1).Output }} for {{ index .Match 1 }}.'
- name: long command
  when: {contains: run a long command, matches: 'for (r[0-9a-f]+-\S+)'}
  steps:
  - - say: It takes a while.
    - shell: {cmd: 'echo long >>effects.txt; while [ ! -e go ]; do sleep 0.2; done; echo it ended', yield: 20s}
  - say: 'After a while {{ trim .LastToolOutput }} for {{ index .Match 1 }}.'
%[2]s- name: hello
  reply: 'You said: {{ .LastUser }}'
`, words, gatewayScript)
