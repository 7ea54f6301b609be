package seeds

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/internal/protocol"
)

// A ConfineTrial tests in a session's sandbox whether codex confines commands as asked.
type ConfineTrial struct {
	ID string // part of the names of files that it creates
	// Outside are folders that commands must not write.
	Outside []string
	Confine Confinement
}

const confineScript = `id=$1
shift
group= n=0
makes() { if (: >"$1/.fairlead-$id") 2>/dev/null; then rm -f "$1/.fairlead-$id"; return 0; fi; return 1; }
for p; do
	case $p in --outside | --read | --write) group=$p n=0; continue ;; esac
	case $group in
	--outside) if makes "$p"; then echo "outside $n"; fi ;;
	--read)
		if [ -d "$p" ]; then
			ls -A "$p" >/dev/null 2>&1 || echo "unread $n"
			if makes "$p"; then echo "overwrites $n"; fi
		else
			dd if="$p" of=/dev/null bs=1 count=1 2>/dev/null || echo "unread $n"
			if (: >>"$p") 2>/dev/null; then echo "overwrites $n"; fi
		fi ;;
	--write) makes "$p" || echo "unwritten $n" ;;
	esac
	n=$((n + 1))
done
echo "net $(readlink /proc/self/ns/net 2>/dev/null)"
proxy=${HTTP_PROXY:-}
if [ -n "$proxy" ]; then
	echo "proxied"
	denied=fairlead-$id.invalid code=
	if command -v curl >/dev/null 2>&1; then
		code=$(curl -s -m 5 -o /dev/null -w '%{http_code}' -x "$proxy" "http://$denied/" 2>/dev/null)
	elif command -v bash >/dev/null 2>&1; then
		at=${proxy#*://} at=${at%/}
		code=$(bash -c 'exec 3<>"/dev/tcp/${1%:*}/${1##*:}" && printf "GET http://%s/ HTTP/1.0\r\nHost: %s\r\n\r\n" "$2" "$2" >&3 && read -t 5 -r _ code _ <&3 && echo "$code"' sh "$at" "$denied" 2>/dev/null)
	fi
	echo "denied $code"
fi
echo end`

// Command returns the command. ReadConfined reads its output.
func (t ConfineTrial) Command() []string {
	argv := append([]string{"/bin/sh", "-c", confineScript, "sh", t.ID, "--outside"}, t.Outside...)
	argv = append(append(argv, "--read"), t.Confine.Read...)
	return append(append(argv, "--write"), t.Confine.Write...)
}

// Confined is the result of a trial.
type Confined struct {
	// Wrong lists what a command can do and must not, or the reverse, as predicates of a
	// sentence.
	Wrong []string
	// Net is the commands' network namespace; empty if unknown.
	Net string
	// Proxied says that HTTP_PROXY is set. Denied is the proxy's HTTP status for a host
	// that is not allowed; empty if it could not be asked.
	Proxied bool
	Denied  string
}

// ReadConfined reads the output of a trial. An error means that it did not finish.
func (t ConfineTrial) ReadConfined(printed string) (Confined, error) {
	var c Confined
	lines := strings.Split(strings.TrimRight(printed, "\n"), "\n")
	if lines[len(lines)-1] != "end" {
		return c, errors.New("the trial did not come to its end")
	}
	words := map[string]struct {
		paths []string
		says  string
	}{
		"outside":    {t.Outside, "can write %s, which is outside of what it may write"},
		"unread":     {t.Confine.Read, "cannot read %s (--read)"},
		"overwrites": {t.Confine.Read, "can write %s, which it may only read (--read)"},
		"unwritten":  {t.Confine.Write, "cannot write %s (--write)"},
	}
	for _, line := range lines[:len(lines)-1] {
		word, rest, _ := strings.Cut(line, " ")
		if w, is := words[word]; is {
			n, err := strconv.Atoi(rest)
			if err != nil || n < 0 || n >= len(w.paths) {
				return c, fmt.Errorf("the output of the sandbox trial has an unexpected line (%d lines in all)", len(lines))
			}
			c.Wrong = append(c.Wrong, fmt.Sprintf(w.says, w.paths[n]))
			continue
		}
		switch word {
		case "net":
			c.Net = rest
		case "proxied":
			c.Proxied = true
		case "denied":
			c.Denied = rest
		default:
			return c, fmt.Errorf("the output of the sandbox trial has an unexpected line (%d lines in all)", len(lines))
		}
	}
	return c, nil
}

// Network returns what is wrong with the commands' network, "" if nothing. host is the
// host's network namespace. If nothing was asked, only an observed fault counts.
func (c Confined) Network(asked Confinement, sandbox, host string, proxied bool) string {
	known := host != "" && c.Net != ""
	switch want := asked.Network; {
	case sandbox == protocol.ByProfile && want == "" && !proxied:
		return "" // the seed's profile decides
	case !known && (want != "" || proxied):
		return "has a network of which it cannot be told whether it is the host's"
	case want == protocol.NetworkOn && c.Net != host:
		return "has no network"
	case want == protocol.NetworkOn:
		return ""
	case known && c.Net == host:
		return "has the host's network"
	case !proxied:
		return ""
	case !c.Proxied:
		return "reaches no host at all: codex's proxy is not there"
	case c.Denied == "000": // curl got no answer
		return "gets no answer of codex's proxy"
	case c.Denied != "" && c.Denied != "403":
		return "gets an answer (" + c.Denied + ") for a host that it must not reach"
	}
	return ""
}
