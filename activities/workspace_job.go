package activities

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/fairlead/hostexec"
)

// ErrTypeWorkspace: what a session is to work in cannot be had, or a hook of it
// failed. Nobody tries again: whoever asked for it has to change something.
const ErrTypeWorkspace = "workspace"

// A job is a command of a workspace's as a journaled process of its session: git,
// or a hook. Whoever comes again finds it at work, or how it ended.
type job struct {
	*site
	host   hostexec.Host
	layout Layout
	claim  Claim
	fence  hostexec.Fence
	name   string // of its folder below proc
	script string // /bin/sh's; what it prints on either stream is kept in order
	args   []string
	env    map[string]string
	dir    string // where it works
	secret []byte // on descriptor hostexec.SecretFD
	limit  time.Duration
	stop   <-chan struct{} // closed when this worker stops; nil for never
}

// jobOutput is how much of the end of what a job prints is kept.
const jobOutput = 64 << 10

// A jobEnd is how a job ended.
type jobEnd struct {
	State  hostexec.ProcessState
	Code   int
	Output string // the end of it
	Late   bool   // it was ended, since it took longer than it may
}

func (e jobEnd) ok() bool { return e.State == hostexec.ProcessExited && e.Code == 0 && !e.Late }

func (j job) proc() string { return path.Join(j.layout.Dir, "proc", j.name) }

// mark finds what the job left behind, and nothing else of the session.
func (j job) mark() string { return Mark(j.claim.Session, j.layout) + "/" + j.name }

// readEnd is how long it may take to read what a job said that has ended.
const readEnd = 10 * time.Minute

// errJobLate is why a job is ended.
var errJobLate = errors.New("it took longer than it may")

// run starts the job, unless it was started before, and waits for its end. An
// error says nothing of the job: it may go on, and the next attempt finds it.
func (j job) run(ctx context.Context) (jobEnd, error) {
	spec := hostexec.ProcessSpec{
		Dir: j.proc(), Fence: j.fence, Mark: j.mark(), WorkDir: j.dir, Env: j.env, Secret: j.secret,
		Unset: []string{"SSH_ASKPASS", "GIT_ASKPASS", "DISPLAY"}, // nobody is there to be asked
		Argv:  append([]string{"/bin/sh", "-c", "exec </dev/null 2>&1\n" + j.script, j.name}, j.args...),
	}
	if _, err := hostexec.StartProcess(ctx, j.host, spec); err != nil {
		return jobEnd{}, fmt.Errorf("start %s: %w", j.name, err)
	}
	age, ended, err := j.age(ctx)
	if err != nil {
		return jobEnd{}, err
	}
	left := max(j.limit-age, 0)
	if ended && left > 0 {
		left = readEnd // it has taken its time: what is left is to read what it said
	}
	fctx, cancel := context.WithTimeoutCause(ctx, left, errJobLate)
	defer cancel()
	fctx, handOver := context.WithCancelCause(fctx)
	defer handOver(nil)
	if j.stop != nil {
		done := make(chan struct{})
		defer close(done)
		go func() {
			select {
			case <-j.stop:
				handOver(errHandOver)
			case <-done:
			}
		}()
	}
	end, err := j.follow(fctx)
	switch cause := context.Cause(fctx); {
	case err == nil:
		return end, nil
	case errors.Is(cause, errJobLate):
		end.Late = true
		return end, j.end(ctx)
	case errors.Is(cause, errHandOver):
		return end, errHandOver
	}
	return end, err
}

// age is how long the job has taken so far, or took, by the host's clock: whoever
// takes it over does not give it its time again, and one that ended while nobody
// looked took no longer for that.
func (j job) age(ctx context.Context) (age time.Duration, ended bool, err error) {
	res, err := j.host.Run(ctx, hostexec.Command{
		Script: `then=$(date -r "$1/started" +%s 2>/dev/null) || { echo 0; exit 0; }
if to=$(date -r "$1/exit" +%s 2>/dev/null); then echo $((to - then)) ended; else to=$(date +%s) && echo $((to - then)); fi`, Args: []string{j.proc()},
	})
	if err != nil {
		return 0, false, fmt.Errorf("look since when %s runs: %w", j.name, err)
	}
	took, word, _ := strings.Cut(strings.TrimSpace(string(res.Stdout)), " ")
	s, _ := strconv.Atoi(took) // a clock may have been set
	return time.Duration(max(s, 0)) * time.Second, word == "ended", nil
}

func (j job) follow(ctx context.Context) (end jobEnd, err error) {
	att, err := hostexec.Attach(ctx, j.host, j.proc(), hostexec.AttachOptions{Follow: true, Untrimmed: true})
	if err != nil {
		return end, fmt.Errorf("follow %s: %w", j.name, err)
	}
	defer att.Close()
	var tail []byte
	buf := make([]byte, 16<<10)
	for err == nil {
		var n int
		n, err = att.Read(buf)
		if tail = append(tail, buf[:n]...); len(tail) > 2*jobOutput {
			tail = append([]byte(nil), tail[len(tail)-jobOutput:]...)
		}
	}
	end.Output = strings.ToValidUTF8(string(tail[max(0, len(tail)-jobOutput):]), "?")
	if !errors.Is(err, io.EOF) {
		return end, fmt.Errorf("follow %s: %w", j.name, err)
	}
	st := att.Status()
	end.State, end.Code = st.State, st.Code
	return end, nil
}

// end ends a job with all that it started.
func (j job) end(ctx context.Context) error {
	if _, err := hostexec.StopProcess(ctx, j.host, j.proc(), j.fence, 2*time.Second); err != nil {
		return fmt.Errorf("end %s: %w", j.name, err)
	}
	if _, err := hostexec.Reap(ctx, j.host, j.proc(), j.mark(), j.fence); err != nil {
		return fmt.Errorf("end what %s started: %w", j.name, err)
	}
	return nil
}

// forget removes the record of a job that has ended, so that it can be run anew.
func (j job) forget(ctx context.Context) error {
	return hostexec.RemoveTree(ctx, j.host, j.proc(), j.layout.Dir, &j.fence)
}

// stillGoing says that what an attempt had begun may go on, and the next attempt
// is to find it: nothing of it is taken back. A worker that was told to stop is
// one; a session that was called back is none.
func stillGoing(ctx context.Context, err error) bool {
	if errors.Is(err, errHandOver) {
		return true
	}
	return ctx.Err() == nil && (errors.Is(err, hostexec.ErrOutcomeUnknown) || errors.Is(err, hostexec.ErrUnreachable))
}

// lastLines is the end of a text, in so many bytes at most and whole lines.
func lastLines(text string, most int) string {
	text = strings.TrimSpace(text)
	if len(text) <= most {
		return text
	}
	text = text[len(text)-most:]
	if _, rest, ok := strings.Cut(text, "\n"); ok {
		text = rest
	}
	return "… " + strings.ToValidUTF8(text, "?")
}
