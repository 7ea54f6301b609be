package hostexec

import "sync"

// tasks are the goroutines of a host, so that Close can wait for them all.
// After Wait was called none can begin.
type tasks struct {
	mu   sync.Mutex
	over bool // guarded by mu
	wg   sync.WaitGroup
}

// Go runs f in a goroutine. It reports false, and runs nothing, after Wait.
func (t *tasks) Go(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return false
	}
	t.wg.Go(f)
	return true
}

func (t *tasks) Wait() {
	t.mu.Lock()
	t.over = true
	t.mu.Unlock()
	t.wg.Wait()
}

// write feeds a line to a channel without making the caller wait for a peer
// that may be dead; the answer comes on the returned Go channel. then runs
// after a line that was written whole.
func (t *tasks) write(ch channel, line string, then func()) <-chan error {
	sent := make(chan error, 1)
	ok := t.Go(func() {
		_, err := ch.Write([]byte(line))
		sent <- err
		if err == nil && then != nil {
			then()
		}
	})
	if !ok {
		sent <- errHostClosed
	}
	return sent
}
