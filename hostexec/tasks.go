package hostexec

import "sync"

// tasks are the goroutines of a host. None can begin after Wait.
type tasks struct {
	mu   sync.Mutex
	over bool // guarded by mu
	wg   sync.WaitGroup
}

// Go runs f in a goroutine. After Wait it reports false.
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

// write sends a line in the background, because the peer may be dead. The returned channel
// receives the result. After a complete write, write calls then.
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
