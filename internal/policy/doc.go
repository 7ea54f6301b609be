// Package policy decides approvals by rules that a person wrote. A rule accepts,
// accepts for the session, declines with a reason, or asks a person.
//
//	p, err := policy.Parse(file)
//	if err != nil {
//		p = policy.Refusing(file, err.Error()) // a broken policy declines everything
//	}
//	verdict := p.Decide(request)
//
// The package is pure: the same file and the same request give the same verdict, on
// every worker and at any time. It uses no clock (the caller counts what depends on
// time), no file and no network, and the cost of a rule is bounded.
//
// Conditions are written in CEL, https://cel.dev, and evaluated by cel.dev/cel-go (the
// module at github.com/google/cel-go). CEL always terminates, checks types before anything
// runs, counts its own cost, and is known from Kubernetes. A language of our own would be
// more code than Fairlead should have.
//
// # The file
//
// The file is YAML. Every key is known, and every mistake is reported with its line.
//
//	rules:                       # in order: the first whose condition is true decides
//	  - name: hands off production
//	    when: host.labels.get("env") == "prod"
//	    outcome: decline
//	    reason: nothing is changed on production without a ticket
//	  - name: look around
//	    when: cwd == work && (words.starts(["ls"]) || words.starts(["wc"]))
//	    outcome: accept
//	  - name: tests, as often as it likes  # they run code of the model, so only on hosts where that is allowed
//	    when: host.labels.get("disposable") == "yes" && words == ["go", "test", "./..."] && cwd == work
//	    outcome: accept_for_session
//	  - name: its own files
//	    when: kind == "file_change" && paths.under(work) && !paths.exists(p, p.matches("(?i)/\\.git(/|$)"))
//	    outcome: accept
//	  - name: the registry                 # its packages run scripts, and so may packages of the model
//	    when: host.labels.get("disposable") == "yes" && network_host.within("npmjs.org") && split(command) == ["npm", "ci"] && cwd == work
//	    outcome: accept
//	  - name: enough is enough
//	    when: counts.declined >= 10
//	    outcome: decline
//	    reason: ten requests were declined already
//	  - name: more room
//	    when: wants.write.under(work + "/out") && wants.read.size() == 0 && !wants.network && !wants.other
//	    outcome: accept
//	default: ask                 # or decline: the outcome if no condition is true (ask)
//	limits:                      # bounds on the requests that are accepted without a person
//	  approvals_per_turn: 50
//	  approvals_per_minute: 20
//	  beyond: ask                # or decline: then people are not asked either (ask)
//	expiry: 30m                  # the time for a person to decide; then the request is declined
//	wait: {quota: true, rate_limit: true, at_most: 6h} # at most 168h (6h)
//
// If only signed decisions are to count, the file has these keys too (package sshsig
// describes the lines):
//
//	approvers: |
//	  alice@example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINjYUBjvtBiyj+fgWfwoAm+voHvMV7BSQqHe+TOPsTeY
//	  bob@example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINGK2W0LE/fQyurPskAP0iBJ+EYxOMz45fKcdnCQibrn
//	required: 1                  # number of approvers who must agree (1)
//	requester_may_decide: false  # whether the sender of the message may be one of them (false)
//
// With the first of these files:
//
//	accept              look around                {"host":{"name":"box-1"},"kind":"command","command":"/bin/bash -lc 'ls -l sub'","cwd":"/srv/a","work":"/srv/a"}
//	ask                 default                    {"kind":"command","command":"/bin/bash -lc 'ls -l sub'","cwd":"/tmp/x","work":"/srv/a"}
//	ask                 default                    {"kind":"command","command":"/bin/bash -lc 'ls; rm -rf /'","cwd":"/srv/a","work":"/srv/a"}
//	ask                 default                    {"kind":"command","command":"/bin/bash -lc 'ls > /etc/passwd'","cwd":"/srv/a","work":"/srv/a"}
//	ask                 default                    {"kind":"command","command":"/work/bash -lc 'ls'","cwd":"/srv/a","work":"/srv/a"}
//	accept_for_session  tests, as often as it likes  {"kind":"command","command":"go test ./...","cwd":"/srv/a","work":"/srv/a","host":{"name":"box-1","labels":{"disposable":"yes"}}}
//	ask                 default                    {"kind":"command","command":"go test ./...","cwd":"/srv/a","work":"/srv/a","host":{"name":"laptop"}}
//	accept              its own files              {"host":{"name":"box-1"},"kind":"file_change","work":"/srv/a","changes":[{"path":"/srv/a/b.go","kind":"update"}]}
//	ask                 default                    {"kind":"file_change","work":"/srv/a","changes":[{"path":"/srv/a/.git/config","kind":"update"}]}
//	ask                 default                    {"kind":"file_change","work":"/srv/a","changes":[{"path":"/srv/a/sub/.GIT/hooks/pre-commit","kind":"add"}]}
//	ask                 default                    {"kind":"file_change","work":"/srv/a","changes":[{"path":"/srv/a/../b","kind":"add"}]}
//	accept              the registry               {"kind":"command","command":"/bin/sh -c 'npm ci'","network_host":"registry.npmjs.org","cwd":"/srv/a","work":"/srv/a","host":{"name":"box-1","labels":{"disposable":"yes"}}}
//	ask                 builtin:unknown            {"kind":"command","command":"npm ci","network_host":"registry.npmjs.org","cwd":"/srv/a","work":"/srv/a","host":{"name":"box-1","labels":{"disposable":"yes"}},"permissions":{"fileSystem":{"write":["/"]}}}
//	decline             hands off production       {"kind":"command","command":"make","host":{"name":"web-1","labels":{"env":"prod"}}}
//	ask                 builtin:unknown            {"kind":"command","command":"ls","cwd":"/srv/a","work":"/srv/a"}
//	accept              more room                  {"host":{"name":"box-1"},"kind":"permissions","work":"/a","permissions":{"fileSystem":{"write":["/a/out/x"]}}}
//	ask                 default                    {"kind":"permissions","work":"/a","permissions":{"fileSystem":{"write":["/a/out/x"]},"network":{"enabled":true}}}
//	ask                 limit:approvals_per_turn   {"host":{"name":"box-1"},"kind":"command","command":"ls","cwd":"/srv/a","work":"/srv/a","counts":{"in_turn":50}}
//	ask                 builtin:unknown            {"kind":"file_change","work":"/srv/a","changes":[{"path":"/srv/a/b.go","kind":"update"}],"grant_root":"/srv/a"}
//	ask                 builtin:unknown            {"kind":"command","command":"ls"}
//
// # What a rule sees
//
//	kind            command, file_change, permissions, user_input (also our tool ask_human), elicitation
//	action          what codex wants to do with a command, if not run it: writeStdin, humanCommand; empty for other requests
//	command         the command as text, with the shell that codex puts around it
//	words           the words of the command, if it is one plain command and the request asks for nothing else; none otherwise
//	plain           whether the command has words
//	cwd             the folder in which the command would run; the model may have chosen it
//	work            the session's work folder; the model cannot choose it
//	paths           every path that would be touched or that is asked for, with both ends of a move, absolute, sorted
//	grant_root      of a file change: a folder below which codex may write everything for the rest of the session; paths has it too
//	changes         of a file change: path, kind (add, update, delete) and moved_to of each file
//	network_host    the host that the request asks to reach, in lower case
//	wants.read, wants.write, wants.network, wants.other
//	                permissions asked for: folders and files, the network, and anything else (patterns, special
//	                places, permissions that only a newer codex knows)
//	server, tool    of MCP: the names of the server and of its tool; tool is also ask_human
//	arguments       of MCP: the arguments of the tool, as JSON with sorted keys and no spaces
//	host.name, host.labels
//	model, session, turn, requester, digest
//	reason          the model's reason, in its own words
//	counts.in_turn, counts.in_minute, counts.in_session, counts.accepted, counts.declined
//	                approval requests before this one: in the turn, in the 60 seconds before, in the session, and how many were accepted or declined
//
// A relative path is taken below cwd or, without cwd, below work. Paths are compared by
// name, byte by byte; link/../x is the same as x. A policy cannot see whether a folder is a
// symbolic link, or whether .GIT is .git on that host. To exclude a name at any place:
// paths.exists(p, p.matches("(?i)/\\.git(/|$)")).
//
// # What a rule can say
//
// A rule can use CEL's operators, in, size, contains, startsWith, endsWith, matches (RE2;
// anywhere in the text, unless ^ and $ say otherwise), conversions of numbers and texts,
// and the macros has, all, exists, exists_one, map and filter. Functions of time are
// excluded. Fairlead adds these functions for conditions that are easily written wrong:
//
//	words.starts(["git", "status"])       the first words are exactly these
//	path.under(folder), paths.under(folder)  the path is the folder or is in it; for paths: all are, and there is at least one
//	network_host.within("example.com")    the host is in that domain; notexample.com is not
//	host.labels.get("env")                the label, or "" if there is none (host.labels["env"] then breaks the rule)
//	split(command)                        the words of any command, also if the request asks for more than running it
//
//	true   words.starts(["git", "log"])              {"kind":"command","command":"git log -1"}
//	false  words.starts(["git", "log"])              {"kind":"command","command":"git logs"}
//	false  words.starts(["git"])                     {"kind":"command","command":"git log | sh"}
//	false  words.starts(["git"])                     {"kind":"command","command":"GIT_SSH=/tmp/x git fetch"}
//	true   words == ["echo", "a b"]                  {"kind":"command","command":"/bin/bash -lc \"echo 'a b'\""}
//	false  words.starts(["npm"])                     {"kind":"command","command":"npm ci","network_host":"example.com"}
//	true   paths.under("/srv")                       {"kind":"file_change","changes":[{"path":"/srv/a","kind":"add"}]}
//	false  paths.under("/srv")                       {"kind":"file_change","changes":[{"path":"/srvx","kind":"add"}]}
//	false  paths.under("/srv")                       {"kind":"file_change","changes":[{"path":"/srv/a","kind":"update","moved_to":"/etc/a"}]}
//	false  paths.under("/srv")                       {"kind":"command","command":"ls"}
//	true   changes.all(c, c.kind == "add")           {"kind":"file_change","changes":[{"path":"/a","kind":"add"}]}
//	true   network_host.within("example.com")        {"kind":"command","network_host":"API.example.com."}
//	false  network_host.within("example.com")        {"kind":"command","network_host":"notexample.com"}
//	true   host.labels.get("env") == ""              {"kind":"command","command":"ls"}
//	true   split(command).starts(["npm", "ci"])      {"kind":"command","command":"npm ci","network_host":"example.com"}
//	true   command.matches("^make( [a-z]+)*$")       {"kind":"command","command":"make all"}
//	true   arguments == '{"id":7,"say":"hi"}'        {"kind":"elicitation","server":"desk","tool":"greet","arguments":"{\"id\":7,\"say\":\"hi\"}"}
//
// # Words
//
// The model writes the command, so a rule must not judge the whole by its beginning. A
// command has words only if every shell would split it into the same words and do nothing
// else. [Split] lists what is excluded. Codex runs commands as `/bin/bash -lc '…'`; then
// the words are the ones inside the quotes, if the shell is one of the system's. Use words
// in rules that accept. A rule that declines by words stops nothing reliably, because the
// same command can be written in many ways. Many programs run other programs when asked to
// (find -exec, tar, git -c, make): give all their words, as in words == ["ls", "-l"].
//
// Many programs also obey files of the folder that they run in, and the model may choose
// and fill that folder. git, even git status, runs programs that a repository's
// configuration names, and plain files make any folder a repository. go test, make and
// pytest run what is in the folder. npm ci runs scripts of a package.json that the model
// wrote, with the network that it was granted. cwd == work keeps the model from choosing
// another folder, but not from filling this one. Accept such a program only if code that
// the model writes may run without a sandbox. `ctl policy check` warns of the best known of
// these programs.
//
// In most sessions codex asks because it wants to run a command without the sandbox. So
// accepting a command usually means that it runs without the sandbox.
//
// # What no rule can do
//
// The following is applied after the rules and cannot be overridden:
//
//   - a question (user_input), an elicitation that asks for more than permission to
//     run a tool, and a request for which codex wants a person (humanCommand) are
//     never accepted: people are asked, by the rule builtin:person;
//   - an accept by a rule that looked at words, paths, changes or permissions counts only
//     if the request has them, because any condition on all elements of an empty list is
//     true. An accept does not count either if codex did not say what it would do. In these
//     cases people are asked, by the rule builtin:unknown;
//   - above the limits nothing is accepted, by the rules limit:approvals_per_turn and
//     limit:approvals_per_minute;
//   - a rule that breaks (a missing label, an index out of range, too much work)
//     declines, under its own name. So does a request that is too big or not text
//     (builtin:request) and a policy that cannot be read (builtin:broken).
//
// # Bounds
//
// A file has at most 256 KiB and 200 rules, a condition 4096 characters, and a
// request 1 MiB of text, 256 KiB in one text, 5000 paths and 100 labels. A rule costs
// at most 100,000 of CEL's units, and all rules for one request 200,000. A rule that
// looks at a few words costs about 10; one that looks at each of 5000 files costs
// 50,000. Lists cannot be concatenated, and lists of lists cannot be compared.
package policy
