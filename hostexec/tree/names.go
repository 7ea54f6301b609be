package tree

import (
	"slices"
	"sync"

	"fairlead.dev/fairlead/hostexec"
)

// A nameQueue holds unanswered names, and the bytes still to send. Names that come fast are
// sent together.
type nameQueue struct {
	popped int // answered names; used by the reader only

	mu      sync.Mutex
	changed sync.Cond
	buf     []byte   // guarded by mu, like all below: bytes to send
	asked   []string // those from head on are not answered
	head    int
	done    bool // no more names come
	over    bool // nobody reads answers any more
	err     error
}

const maxUnsent = 256 << 10

func newNameQueue() *nameQueue {
	q := &nameQueue{}
	q.changed.L = &q.mu
	return q
}

// take queues all names. At an invalid name it stops and calls fail.
func (q *nameQueue) take(names func(yield func(string) bool), fail func(error)) {
	names(func(p string) bool {
		if err := checkTreePath(p); err != nil {
			q.stop(err)
			fail(err)
			return false
		}
		return q.push(p)
	})
	q.mu.Lock()
	q.done = true
	q.mu.Unlock()
	q.changed.Broadcast()
}

func (q *nameQueue) push(p string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.buf) > maxUnsent && !q.over {
		q.changed.Wait()
	}
	if q.over {
		return false
	}
	q.buf = append(append(append(q.buf, "./"...), p...), 0)
	q.asked = append(q.asked, p)
	q.changed.Broadcast()
	return true
}

// send writes names as they come, then closes the stream's input.
func (q *nameQueue) send(s hostexec.Stream) {
	var out []byte
	for {
		q.mu.Lock()
		for len(q.buf) == 0 && !q.done && !q.over {
			q.changed.Wait()
		}
		out, q.buf = q.buf, out[:0]
		over := q.over
		q.mu.Unlock()
		q.changed.Broadcast()
		if over {
			return
		}
		if len(out) == 0 {
			s.CloseWrite()
			return
		}
		if _, err := s.Write(out); err != nil {
			q.stop(nil) // the reader gets the error
			return
		}
	}
}

func (q *nameQueue) stop(err error) {
	q.mu.Lock()
	q.over = true
	if q.err == nil {
		q.err = err
	}
	q.mu.Unlock()
	q.changed.Broadcast()
}

// total returns how many names were asked for so far.
func (q *nameQueue) total() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return int64(q.popped + len(q.asked) - q.head)
}

func (q *nameQueue) failure() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

func (q *nameQueue) pop() (string, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head == len(q.asked) {
		return "", false
	}
	return q.popN(1)[0], true
}

// popTo takes p and all unanswered names before it out of the queue, and returns the
// latter. If p was not asked for, ok is false and nothing is taken.
func (q *nameQueue) popTo(p string) (before []string, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.asked[q.head:], p)
	if i < 0 {
		return nil, false
	}
	return q.popN(i + 1)[:i], true
}

func (q *nameQueue) popN(n int) []string {
	taken := slices.Clone(q.asked[q.head : q.head+n])
	clear(q.asked[q.head : q.head+n])
	q.head += n
	q.popped += n
	if q.head > len(q.asked)/2 && q.head > 1024 {
		q.asked = append(q.asked[:0], q.asked[q.head:]...)
		clear(q.asked[len(q.asked):cap(q.asked)])
		q.head = 0
	}
	return taken
}
