package hostexec_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/realparts"
)

// BenchmarkRoundTrip sends a line to a program and waits for its answer. It does so
// alternately through an attachment and, for comparison, through a plain command, on one
// connection to the same sshd. It reports the medians in microseconds and their ratio.
func BenchmarkRoundTrip(b *testing.B) {
	sshd := hosttest.StartSSHD(b, hosttest.Options{})
	pool := hostexec.NewPool(hostexec.PoolOptions{})
	b.Cleanup(func() { pool.Close() })
	h, err := pool.Host(sshd.Spec())
	if err != nil {
		b.Fatal(err)
	}
	codex := realparts.CodexBinary(b)
	echo := program{
		argv: []string{selfPath(b)}, env: map[string]string{programEnv: "echo"},
		ask: func(int) (string, string) { return pingLine, pingLine },
	}
	appServer := program{
		argv: []string{codex, "app-server"}, env: map[string]string{"CODEX_HOME": b.TempDir()},
		hello: `{"id":0,"method":"initialize","params":{"clientInfo":{"name":"bench","version":"1"}}}` + "\n",
		ask: func(n int) (string, string) {
			return fmt.Sprintf(`{"id":%d,"method":"thread/loaded/list","params":{}}`+"\n", n), fmt.Sprintf(`{"id":%d,`, n)
		},
	}
	// tail polls in this way if no inotify instance is left.
	polling := farm(b, nil)
	if err := os.WriteFile(polling+"/tail", []byte("#!/bin/sh\nexec "+lookPath(b, "tail")+` ---disable-inotify "$@"`), 0o755); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		host hostexec.Host
		program
	}{{"codex", h, appServer}, {"echo", h, echo},
		{"echo-tail-polls", &otherShell{h, polling + ":" + os.Getenv("PATH")}, echo}, {"echo-busybox", &otherShell{h, busybox(b)}, echo},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := newScene(b, c.host)
			spec := s.spec(c.argv...)
			spec.Env = c.env
			if _, err := process.Start(s.ctx, s.host, spec); err != nil {
				b.Fatal(err)
			}
			attached := s.attach(process.AttachOptions{})
			plain, err := h.Start(s.ctx, hostexec.Command{Script: `exec "$@"`, Args: c.argv, Env: c.env})
			if err != nil {
				b.Fatal(err)
			}
			defer plain.Close()
			ways := []*pingPong{{program: c.program, rw: attached}, {program: c.program, rw: plain}}
			for _, w := range ways {
				w.in = bufio.NewReaderSize(w.rw, 64<<10)
				if _, err := io.WriteString(w.rw, c.hello); err != nil {
					b.Fatal(err)
				}
				w.ping(b)
			}
			for b.Loop() {
				for _, w := range ways {
					w.ping(b)
				}
			}
			a, p := ways[0].quantile(0.5), ways[1].quantile(0.5)
			b.ReportMetric(a, "µs-attached")
			b.ReportMetric(p, "µs-plain")
			b.ReportMetric(ways[0].quantile(0.99), "µs-attached-p99")
			b.ReportMetric(ways[1].quantile(0.99), "µs-plain-p99")
			b.ReportMetric(a/p, "ratio")
		})
	}
}

// A program answers each line with a line that begins with a given text.
type program struct {
	argv  []string
	env   map[string]string
	hello string
	ask   func(n int) (line, answer string)
}

var pingLine = `{"id":1,"method":"thread/read","params":{"threadId":"` + strings.Repeat("x", 200) + `"}}` + "\n"

type pingPong struct {
	program
	rw    io.ReadWriter
	in    *bufio.Reader
	times []time.Duration
}

func (w *pingPong) ping(b *testing.B) {
	line, want := w.ask(len(w.times) + 1)
	began := time.Now()
	if _, err := io.WriteString(w.rw, line); err != nil {
		b.Fatal(err)
	}
	for {
		line, err := w.in.ReadString('\n')
		if err != nil {
			b.Fatal(err)
		}
		if strings.HasPrefix(line, want) {
			break
		}
	}
	w.times = append(w.times, time.Since(began))
}

func (w *pingPong) quantile(q float64) float64 {
	slices.Sort(w.times)
	return float64(w.times[int(q*float64(len(w.times)-1))].Nanoseconds()) / 1e3
}

// BenchmarkAttach attaches and closes the attachment again, at the beginning of the journal
// and at the end of a line.
func BenchmarkAttach(b *testing.B) {
	sshd := hosttest.StartSSHD(b, hosttest.Options{})
	pool := hostexec.NewPool(hostexec.PoolOptions{})
	b.Cleanup(func() { pool.Close() })
	h, err := pool.Host(sshd.Spec())
	if err != nil {
		b.Fatal(err)
	}
	s := newScene(b, h)
	s.program("echo")
	first := s.attach(process.AttachOptions{})
	readUntil(b, first, "\n")
	first.Close()
	for _, c := range []struct {
		name string
		opts process.AttachOptions
	}{{"beginning", process.AttachOptions{}}, {"bytes", process.AttachOptions{Offset: 1}}, {"lines", process.AttachOptions{Offset: 1, Lines: true}}} {
		b.Run(c.name, func(b *testing.B) {
			c.opts.Fence = s.fence
			for b.Loop() {
				a, err := process.Attach(s.ctx, h, s.proc(), c.opts)
				if err != nil {
					b.Fatal(err)
				}
				a.Close()
			}
		})
	}
}

func BenchmarkStart(b *testing.B) {
	sshd := hosttest.StartSSHD(b, hosttest.Options{})
	pool := hostexec.NewPool(hostexec.PoolOptions{})
	b.Cleanup(func() { pool.Close() })
	h, err := pool.Host(sshd.Spec())
	if err != nil {
		b.Fatal(err)
	}
	s := newScene(b, h)
	n := 0
	for b.Loop() {
		n++
		spec := s.spec("/bin/sleep", "1000")
		spec.Dir += fmt.Sprint(n)
		if _, err := process.Start(s.ctx, h, spec); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if _, err := process.Stop(s.ctx, h, spec.Dir, s.fence, 0); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
