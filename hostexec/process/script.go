package process

import (
	_ "embed"
	"strings"
)

// lib.sh is the common part of most scripts.
var (
	//go:embed lib.sh
	processLib string
	//go:embed start.sh
	startText string
	//go:embed supervise.sh
	superviseText string
	//go:embed job.sh
	jobText string
	//go:embed exec.sh
	execText string
	//go:embed stop.sh
	stopText string
	//go:embed trim.sh
	trimText string
	//go:embed remove.sh
	removeText string
	//go:embed attach.sh
	attachText string
	//go:embed reap.sh
	reapText string
)

var (
	inspectScript   = withLib("j_d=$1\nj_look\nj_report\n")
	runningScript   = withLib("[ -d \"$1\" ] || exit 0\ncd -- \"$1\" || exit 1\nfor j_d in \"$2\" \"$2\".*; do\nj_look\n[ \"$j_state\" != running ] || echo \"$j_d\"\ndone\n")
	startScript     = withLib(startText)
	startWithSecret = withLib(strings.Replace(startText, noInput, secretInput, 1))
	superviseScript = withLib(superviseText)
	jobScript       = withLib(jobText)
	execScript      = bare(execText)
	stopScript      = withLib(stopText)
	trimScript      = withLib(trimText)
	removeProcess   = withLib(removeText)
	attachScript    = withLib(attachText)
	reapScript      = withLib(reapText)
)

// Redirections for the supervisor and the job. With secretInput, the start script's
// standard input, a pipe with a secret, becomes their descriptor SecretFD.
const (
	noInput     = "9>&- </dev/null >/dev/null"
	secretInput = "9>&- 7<&0 </dev/null >/dev/null"
)

// Exit statuses; 97 and 98 belong to the fence.
const (
	statusNotStarted  = 81
	statusUnsupported = 82
	statusJournalLost = 83
	statusUnknown     = 84 // a start was interrupted
	statusAbsent      = 85
	statusStuck       = 86 // an earlier attachment does not end
	statusRunning     = 87

	statusPipe = 128 + 13 // a write to a pipe that nothing reads
	statusTold = 128 + 15 // the supervisor ended the attachment because the job ended
)

func withLib(text string) string { return bare(processLib) + bare(text) }

// bare removes comments and indentation: a script is sent with every command, and some
// shells read it byte by byte.
func bare(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimLeft(line, "\t"); line != "\n" && !strings.HasPrefix(line, "#") {
			b.WriteString(line)
		}
	}
	return b.String()
}
