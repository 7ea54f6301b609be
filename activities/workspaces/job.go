package workspaces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/protocol"
)

// A Job is a command (git or a hook) as a journaled process. A later attempt finds it
// running, or finds how it ended.
type Job struct {
	Site   *site.Site
	Host   hostexec.Host
	Layout protocol.Layout
	claim  protocol.Claim
	fence  hostexec.Fence
	Name   string // the folder below proc
	script string // for /bin/sh; stdout and stderr keep their order
	args   []string
	env    map[string]string
	dir    string
	secret []byte // on descriptor process.SecretFD
	limit  time.Duration
	stop   <-chan struct{} // closed when this worker stops; may be nil
}

// jobOutput is how many last bytes of output are kept.
const jobOutput = 64 << 10

type jobEnd struct {
	State  process.State
	Code   int
	Output string // the end
	Late   bool   // ended for its time limit
}

func (e jobEnd) ok() bool { return e.State == process.Exited && e.Code == 0 && !e.Late }

// Proc returns the folder of the job's process.
func (j Job) Proc() string { return path.Join(j.Layout.Dir, "proc", j.Name) }

// mark returns the mark of the job's processes alone.
func (j Job) mark() string { return folder.Mark(j.claim.Session, j.Layout) + "/" + j.Name }

// readEnd limits reading the output of an ended job.
const readEnd = 10 * time.Minute

var errJobLate = errors.New("it took longer than its time limit")

// run starts the job unless it was started before, and waits. After an error the job may go
// on.
func (j Job) run(ctx context.Context) (jobEnd, error) {
	spec := process.Spec{
		Dir: j.Proc(), Fence: j.fence, Mark: j.mark(), WorkDir: j.dir, Env: j.env, Secret: j.secret,
		Unset: []string{"SSH_ASKPASS", "GIT_ASKPASS", "DISPLAY"}, // nobody can answer questions there
		Argv:  append([]string{"/bin/sh", "-c", "exec </dev/null 2>&1\n" + j.script, j.Name}, j.args...),
	}
	if _, err := process.Start(ctx, j.Host, spec); err != nil {
		return jobEnd{}, fmt.Errorf("start %s: %w", j.Name, err)
	}
	age, ended, err := j.Age(ctx)
	if err != nil {
		return jobEnd{}, err
	}
	left := max(j.limit-age, 0)
	if ended && left > 0 {
		left = readEnd
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
				handOver(kit.ErrHandOver)
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
	case errors.Is(cause, kit.ErrHandOver):
		return end, kit.ErrHandOver
	}
	return end, err
}

// ageScript prints the job's start and its end or the present time, in ticks since boot and
// by the clock, which may be set meanwhile.
const ageScript = `{ IFS=' ' read -r pid start boot x <"$1/started"; } 2>/dev/null || exit 0
LC_ALL=C; export LC_ALL
if [ -e "$1/exit" ]; then
	echo "ended y"
	{ IFS=' ' read -r code to x <"$1/exit"; } 2>/dev/null
	clock=$(date -r "$1/exit" +%s 2>/dev/null)
else
	# A process that begins now knows what time it is.
	to=$(sh -c 'IFS= read -r l </proc/self/stat && l=${l##*)} && set -- $l && shift 19 && echo "$1"' 2>/dev/null)
	IFS= read -r id </proc/sys/kernel/random/boot_id 2>/dev/null && [ "$id" = "$boot" ] || to=
	clock=$(date +%s)
fi
echo "ticks $start $to"
echo "clock $(date -r "$1/started" +%s 2>/dev/null) $clock"
echo "hz $(getconf CLK_TCK 2>/dev/null || echo 100)"`

// Age returns how long the job has run or ran, so that another attempt does not grant its
// whole time limit again. Without ticks Age uses the host's clock.
func (j Job) Age(ctx context.Context) (age time.Duration, ended bool, err error) {
	res, err := j.Host.Run(ctx, hostexec.Command{Script: ageScript, Args: []string{j.Proc()}})
	if err != nil {
		return 0, false, fmt.Errorf("look when %s was started: %w", j.Name, err)
	}
	said := map[string][]int64{}
	for line := range strings.Lines(string(res.Stdout)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		ended = ended || words[0] == "ended"
		for _, w := range words[1:] {
			if n, err := strconv.ParseInt(w, 10, 64); err == nil {
				said[words[0]] = append(said[words[0]], n)
			}
		}
	}
	if t, hz := said["ticks"], said["hz"]; len(t) == 2 && len(hz) == 1 && hz[0] > 0 {
		age = time.Duration(float64(t[1]-t[0]) / float64(hz[0]) * float64(time.Second))
	} else if t := said["clock"]; len(t) == 2 {
		age = time.Duration(t[1]-t[0]) * time.Second
	}
	return max(age, 0), ended, nil
}

func (j Job) follow(ctx context.Context) (end jobEnd, err error) {
	att, err := process.Attach(ctx, j.Host, j.Proc(), process.AttachOptions{Follow: true, Untrimmed: true})
	if err != nil {
		return end, fmt.Errorf("follow %s: %w", j.Name, err)
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
		return end, fmt.Errorf("follow %s: %w", j.Name, err)
	}
	st := att.Status()
	end.State, end.Code = st.State, st.Code
	return end, nil
}

func (j Job) end(ctx context.Context) error {
	if _, err := process.Stop(ctx, j.Host, j.Proc(), j.fence, 2*time.Second); err != nil {
		return fmt.Errorf("end %s: %w", j.Name, err)
	}
	if _, err := process.Reap(ctx, j.Host, j.Proc(), j.mark(), j.fence); err != nil {
		return fmt.Errorf("end what %s started: %w", j.Name, err)
	}
	return nil
}

// forget removes an ended job's record, so that it can run anew.
func (j Job) forget(ctx context.Context) error {
	return hostexec.RemoveTree(ctx, j.Host, j.Proc(), j.Layout.Dir, &j.fence)
}

// StillGoing reports whether a job may go on after this error, and so nothing is undone:
// the worker stops, or the connection was lost without a cancel.
func StillGoing(ctx context.Context, err error) bool {
	if errors.Is(err, kit.ErrHandOver) {
		return true
	}
	return ctx.Err() == nil && (errors.Is(err, hostexec.ErrOutcomeUnknown) || errors.Is(err, hostexec.ErrUnreachable))
}

// lastLines returns the last whole lines, at most most bytes.
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
