package hostexec_test

import (
	"bufio"
	"io"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/hostexec/process"
)

// BenchmarkSlowLine reports the number of round trips that each operation takes on a slow
// line.
func BenchmarkSlowLine(b *testing.B) {
	sshd := hosttest.StartSSHD(b, hosttest.Options{Behind: newLine(b)})
	pool := hostexec.NewPool(hostexec.PoolOptions{})
	b.Cleanup(func() { pool.Close() })
	h, err := pool.Host(sshd.Spec())
	if err != nil {
		b.Fatal(err)
	}
	s := newScene(b, h)
	s.program("echo")
	ways := map[string]func(b *testing.B){
		"run": func(b *testing.B) {
			if _, err := h.Run(b.Context(), hostexec.Command{Script: ":"}); err != nil {
				b.Fatal(err)
			}
		},
		"attach": func(b *testing.B) {
			s.fence.Epoch.Attempt++
			a, err := process.Attach(b.Context(), h, s.proc(), process.AttachOptions{Fence: s.fence})
			if err != nil {
				b.Fatal(err)
			}
			a.Close()
		},
	}
	for _, name := range []string{"run", "attach"} {
		b.Run(name, func(b *testing.B) {
			ways[name](b)
			began := time.Now()
			n := 0
			for b.Loop() {
				ways[name](b)
				n++
			}
			b.ReportMetric(float64(time.Since(began))/float64(n)/float64(2*oneWay), "round-trips")
		})
	}
	b.Run("message", func(b *testing.B) {
		s.fence.Epoch.Attempt++
		a := s.attach(process.AttachOptions{Fence: s.fence, Offset: s.inspect().Size})
		in := bufio.NewReader(a)
		ping := func() {
			if _, err := io.WriteString(a, pingLine); err != nil {
				b.Fatal(err)
			}
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					b.Fatal(err)
				}
				if line == pingLine {
					return
				}
			}
		}
		ping()
		began := time.Now()
		n := 0
		for b.Loop() {
			ping()
			n++
		}
		b.ReportMetric(float64(time.Since(began))/float64(n)/float64(2*oneWay), "round-trips")
	})
}

// BenchmarkCrowd sends a line to each of two hundred attached sessions on one host and
// waits for the answers. These are more sessions than inotify instances, so for some of
// them tail polls the journal.
func BenchmarkCrowd(b *testing.B) {
	c := newCrowd(b, largeCrowd)
	members := c.attach(b)
	asked := &pingPong{}
	for b.Loop() {
		for _, m := range members {
			began := time.Now()
			if err := m.ask("hello"); err != nil {
				b.Fatal(err)
			}
			asked.times = append(asked.times, time.Since(began))
		}
	}
	b.ReportMetric(asked.quantile(0.5)/1e3, "ms-p50")
	b.ReportMetric(asked.quantile(0.95)/1e3, "ms-p95")
	b.ReportMetric(asked.quantile(1)/1e3, "ms-max")
}
