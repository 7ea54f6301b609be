// Package policy decides approvals by rules that a person wrote. [Refusing] replaces a
// policy that cannot be read.
//
// The same file and request give the same verdict, on every worker and at any time. The
// package uses no clock (the caller counts what depends on time), file or network.
//
// Conditions are written in CEL, https://cel.dev, which always terminates, checks types
// before anything runs, and counts its own cost. The module cel.dev/cel-go is at
// github.com/google/cel-go.
//
// # The file
//
// The file is YAML. Every mistake, also an unknown key, is reported with its line.
//
//	rules:                       # the first whose condition is true decides
//	  - name: hands off production
//	    when: host.labels.get("env") == "prod"
//	    outcome: decline
//	    reason: nothing is changed on production without a ticket
//	  - name: look around
//	    when: cwd == work && (words.starts(["ls"]) || words.starts(["wc"]))
//	    outcome: accept
//	  - name: tests, as often as it likes  # they run code of the model
//	    when: host.labels.get("disposable") == "yes" && words == ["go", "test", "./..."] && cwd == work
//	    outcome: accept_for_session
//	  - name: its own files
//	    when: kind == "file_change" && paths.under(work) && !paths.exists(p, p.matches("(?i)/\\.git(/|$)"))
//	    outcome: accept
//	  - name: the registry                 # packages run scripts
//	    when: host.labels.get("disposable") == "yes" && network_host.within("npmjs.org") && split(command) == ["npm", "ci"] && cwd == work
//	    outcome: accept
//	  - name: enough is enough
//	    when: counts.declined >= 10
//	    outcome: decline
//	    reason: ten requests were declined already
//	  - name: more room
//	    when: wants.write.under(work + "/out") && wants.read.size() == 0 && !wants.network && !wants.other
//	    outcome: accept
//	default: ask                 # or decline; if no condition is true (ask)
//	limits:                      # of requests accepted without a person
//	  approvals_per_turn: 50
//	  approvals_per_minute: 20
//	  beyond: ask                # or decline, without asking people (ask)
//	expiry: 30m                  # for a person to decide; then the request is declined
//	wait: {quota: true, rate_limit: true, at_most: 6h} # at most 168h (6h)
//
// A rule of outcome ask may also say risk: high. Then a person who accepts proves at that moment
// who they are: with a passkey in the console, or by a signature with a FIDO key. Nobody needs that
// to decline. What is accepted so holds once, never for the session. If a request lacks a fact that
// a rule of high risk looks at, what later rules ask is of high risk, too. API tokens can prove
// nothing of that kind, so the file names those that may accept all the same:
//
//	high_risk_tokens: [deployer]
//
// If only signed decisions are to count, it also has these keys (package sshsig describes
// the lines):
//
//	approvers: |
//	  alice@example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINjYUBjvtBiyj+fgWfwoAm+voHvMV7BSQqHe+TOPsTeY
//	  bob@example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINGK2W0LE/fQyurPskAP0iBJ+EYxOMz45fKcdnCQibrn
//	required: 1                  # how many must agree (1)
//	requester_may_decide: false  # may the sender of the message be one of them (false)
//
// With the first of these files:
//
//	accept              look around                {"host":{"name":"box-1"},"kind":"command","command":"/bin/bash -lc 'ls -l sub'","cwd":"/srv/a","work":"/srv/a"}
//	ask                 default                    {"kind":"command","command":"/bin/bash -lc 'ls -l sub'","cwd":"/tmp/x","work":"/srv/a"}
//	ask                 default                    {"kind":"command","command":"/bin/bash -lc 'ls; rm -rf /'","cwd":"/srv/a","work":"/srv/a"}
//	ask                 default                    {"kind":"command","command":"/work/bash -lc 'ls'","cwd":"/srv/a","work":"/srv/a"}
//	accept_for_session  tests, as often as it likes  {"kind":"command","command":"go test ./...","cwd":"/srv/a","work":"/srv/a","host":{"name":"box-1","labels":{"disposable":"yes"}}}
//	ask                 default                    {"kind":"command","command":"go test ./...","cwd":"/srv/a","work":"/srv/a","host":{"name":"laptop"}}
//	accept              its own files              {"host":{"name":"box-1"},"kind":"file_change","work":"/srv/a","changes":[{"path":"/srv/a/b.go","kind":"update"}]}
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
//
// # What a rule sees
//
//	kind            command, file_change, permissions, user_input (also our tool ask_human), elicitation
//	action          writeStdin, humanCommand, or empty: what codex wants to do with a command other than run it
//	command         the command as text, with the shell that codex puts around it
//	words           its words, if it is one plain command and the request asks for nothing else; else none
//	plain           whether there are words
//	cwd             the folder of the command; the model may have chosen it
//	work            the session's work folder; the model cannot choose it
//	paths           every path touched or asked for, with both ends of a move, absolute, sorted
//	grant_root      of a file change: a folder below which codex may write everything for the rest of the session; also in paths
//	changes         of a file change: path, kind (add, update, delete) and moved_to of each file
//	network_host    the host to reach, in lower case
//	wants.read, wants.write, wants.network, wants.other
//	                permissions asked for; wants.other is anything else, such as patterns, special places, and
//	                permissions that only a newer codex knows
//	server, tool    of MCP; tool is also ask_human
//	arguments       of the MCP tool, as JSON with sorted keys and no spaces
//	host.name, host.labels
//	model, session, turn, requester, digest
//	reason          in the words of the model
//	counts.in_turn, counts.in_minute, counts.in_session, counts.accepted, counts.declined
//	                approval requests before this one; in_minute: in the 60 seconds before
//
// A relative path is taken below cwd or, without cwd, below work. Paths are compared byte by
// byte. A policy cannot see whether .GIT is .git on that host. To exclude a name at any
// place: paths.exists(p, p.matches("(?i)/\\.git(/|$)")).
//
// # Symbolic links
//
// The model can make links in its work folder. So if a rule up to the deciding one looks at
// cwd, work, paths, changes, grant_root, wants.read or wants.write, the session's host is
// asked where all of these lead: links are followed, .. after a link is the parent of the
// link's target, and what does not exist keeps its name. The rules then decide again with
// the places in place of the names, once with the last name as it is (a link that is
// removed or renamed), and once with the last name resolved (a file that is written). The
// strictest verdict counts: a rule that accepts must hold for the names and for the places,
// and a rule that declines needs to hold for one of them. Write the paths of rules as they
// are on the host without links.
//
// If the places differ so that no rule accepts, or the host cannot say them (it does not
// answer, links go in a circle, a folder cannot be searched, there are more than 1000
// paths), people are asked, by the rule builtin:place. An accept for the session becomes an
// accept once, except for a command in the work folder itself: codex compares later
// requests by name, and the model could change a link meanwhile.
//
// A verdict is about the moment at which the host was asked. Codex writes an accepted patch
// outside of the sandbox, and follows links. Between the host's answer and the write lies
// about one round trip, in which a process that the model left running can replace a folder
// by a link. Other names of a file (hard links) cannot be seen. Paths in the words of a
// command are only words. `ctl policy test` asks no host and takes each name for the place.
//
// # What a rule can say
//
// A rule can use CEL's operators, in, size, contains, startsWith, endsWith, matches (RE2;
// anywhere in the text without ^ and $), conversions of numbers and texts, and the macros
// has, all, exists, exists_one, map and filter, but no functions of time. Fairlead adds
// these functions for conditions that are easily written wrong:
//
//	words.starts(["git", "status"])       the first words are exactly these
//	path.under(folder), paths.under(folder)  the path is the folder or in it; all paths are, and there is at least one
//	network_host.within("example.com")    the host is in that domain; notexample.com is not
//	host.labels.get("env")                the label, or "" if there is none (then host.labels["env"] breaks the rule)
//	split(command)                        the words of any command, also if the request asks for more than to run it
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
//	true   arguments == '{"id":7,"say":"hi"}'        {"kind":"elicitation","server":"desk","tool":"greet","arguments":"{\"id\":7,\"say\":\"hi\"}"}
//
// # Words
//
// A command has words only if every shell would split it into the same words and do nothing
// else: see [Split]. Codex runs commands as `/bin/bash -lc '…'`; then the words are those
// inside the quotes, if the shell is one of the system's. Use words in rules that accept. A
// rule that declines by words stops nothing reliably, because the same command can be
// written in many ways. Many programs run other programs when asked to (find -exec, tar,
// git -c, make): give all their words, as in words == ["ls", "-l"].
//
// Many programs also obey files of the folder that they run in, and the model may choose
// and fill that folder. git, even git status, runs programs that a repository's
// configuration names, and plain files make any folder a repository. go test, make and
// pytest run what is in the folder. npm ci runs scripts of a package.json that the model
// wrote, with the network that it was granted. cwd == work keeps the model from choosing
// another folder, but not from filling this one. Accept such a program only if code of the
// model may run without a sandbox. `ctl policy check` warns of the best known ones.
//
// Accepting a command usually means that it runs without the sandbox: in most sessions that
// is why codex asks.
//
// # What no rule can do
//
// The following applies after the rules, whatever they say:
//
//   - a question (user_input), an elicitation that asks for more than permission to run a
//     tool, and a request for which codex wants a person (humanCommand) are never accepted:
//     people are asked instead, by the rule builtin:person;
//   - an accept by a rule that looked at words, paths, changes or permissions counts only
//     if the request has them, because a condition on all elements of an empty list is
//     true. Nor does it count if codex did not say what it would do. Then people are asked,
//     by the rule builtin:unknown;
//   - an accept by a rule that looked at paths counts only if the rules also accept the
//     places where the paths lead on the host. Otherwise people are asked, by the rule
//     builtin:place;
//   - above the limits nothing is accepted, by the rules limit:approvals_per_turn and
//     limit:approvals_per_minute;
//   - a rule that breaks (a missing label, an index out of range, too much work) declines,
//     under its own name. So does a request that is too big or not text (builtin:request)
//     and a policy that cannot be read (builtin:broken).
//
// # Bounds
//
// A file has at most 256 KiB and 200 rules, a condition 4096 characters, and a request 1
// MiB of text, 256 KiB in one text, 5000 paths and 100 labels. A rule costs at most 100,000
// of CEL's units, and all rules for one request 200,000. A look at a few words costs about
// 10, at each of 5000 files 50,000. Lists cannot be concatenated, and lists of lists cannot
// be compared.
package policy
