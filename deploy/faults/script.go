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

// script is what the model does. Each prompt names its session, which is also
// the name of the gate that it waits at; each command leaves a line in
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
- name: hello
  reply: 'You said: {{ .LastUser }}'
`, words)
