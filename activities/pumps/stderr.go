package pumps

import (
	"bytes"
	"context"
	"io"
	"slices"
	"time"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/protocol"
)

const (
	// stderrRead is how much of a living codex's standard error is read.
	stderrRead = 4 << 10
	// stderrWait bounds the reading: the time-out itself is known.
	stderrWait = 15 * time.Second
)

// muteKinds are time-outs of a codex that does not answer. Its standard error may say why.
var muteKinds = []string{protocol.EndStartTimeout, protocol.EndRequestTimeout, protocol.EndSilent}

// explainTimeout adds to a time-out what codex's standard error says.
func explainTimeout(ctx context.Context, s *site.Site, in RunPumpInput, hide *conversation.Redactor, p *protocol.Problem) *protocol.Problem {
	if p == nil || !slices.Contains(muteKinds, p.Kind) {
		return p
	}
	ctx, cancel := context.WithTimeout(ctx, stderrWait)
	defer cancel()
	tail, err := readStderr(ctx, s, in)
	if err != nil {
		s.Logger.Warn("codex's standard error cannot be read", "session", in.Claim.Session, "error", err)
		return p
	}
	return conversation.TimeoutProblem(p, hide.String(tail))
}

// goneWithStderr describes how a process ended, and looks for its standard error, which an
// attachment does not tell. Without it the end is known all the same.
func goneWithStderr(ctx context.Context, s *site.Site, h hostexec.Host, dir string, st process.Status) *ProcessGone {
	if st.State == process.Running {
		return GoneOf(st)
	}
	ctx, cancel := context.WithTimeout(ctx, stderrWait)
	defer cancel()
	seen, err := process.Inspect(ctx, h, dir)
	if err != nil {
		s.Logger.Warn("the standard error of an ended codex cannot be read", "host", h.Name(), "error", err)
	}
	st.StderrTail = seen.StderrTail
	return GoneOf(st)
}

// readStderr returns the last whole lines of codex's standard error.
func readStderr(ctx context.Context, s *site.Site, in RunPumpInput) (string, error) {
	h, err := s.Host(in.Claim.Host)
	if err != nil {
		return "", err
	}
	dir := folder.ServerDir(in.Layout, in.Pump.State.Cursor.Incarnation)
	st, err := process.Inspect(ctx, h, dir)
	if err != nil || st.State != process.Running {
		return kit.LastOf(st.StderrTail, stderrRead/2), err
	}
	from := max(st.ErrSize-stderrRead, 0)
	att, err := process.Attach(ctx, h, dir, process.AttachOptions{Offset: from, Follow: true, ErrLog: true})
	if err != nil {
		return "", err
	}
	defer att.Close()
	text, err := io.ReadAll(io.LimitReader(att, st.ErrSize-from))
	if err != nil {
		return "", err
	}
	if from > 0 { // a cut line may begin within a secret
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return string(text), nil
}
