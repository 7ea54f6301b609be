package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"time"

	"github.com/sethvargo/go-retry"

	"fairlead.dev/fairlead/internal/protocol"
)

// Feed follows a session from the seq from until it has closed. It yields each entry once
// and in order, and each byte of a delta once. After a break it reconnects and continues.
// When the client's patience ends, it yields an error that wraps ErrUnreachable; to
// continue, call Feed on another worker's client, from the next seq.
func (c *Client) Feed(ctx context.Context, session string, from int64) iter.Seq2[Event, error] {
	return c.session(ctx, session, "feed", from)
}

// Transcript yields a session's entries up to the newest.
func (c *Client) Transcript(ctx context.Context, session string, from int64) iter.Seq2[protocol.Entry, error] {
	return func(yield func(protocol.Entry, error) bool) {
		for ev, err := range c.session(ctx, session, "transcript", from) {
			switch {
			case err != nil:
				yield(protocol.Entry{}, err)
				return
			case ev.Kind == KindEntry:
				if !yield(*ev.Entry, nil) {
					return
				}
			}
		}
	}
}

// Exec follows the output of a command on a host from byte positions. The last event, of
// kind end, has the result.
func (c *Client) Exec(ctx context.Context, host, id string, out, err int64) iter.Seq2[Event, error] {
	pos := map[string]int64{"stdout": out, "stderr": err}
	return c.follow(ctx, func() string {
		return query("/v1/exec/"+url.PathEscape(id), "out", pos["stdout"], "err", pos["stderr"]) + "&" + url.Values{"host": {host}}.Encode()
	}, func(ev Event) ([]Event, bool) {
		if ev.Kind != KindOutput {
			return []Event{ev}, false
		}
		o := *ev.Output
		skip := pos[o.Stream] - o.At
		if skip >= int64(len(o.Data)) {
			return nil, false
		}
		if skip > 0 {
			o.At, o.Data = o.At+skip, o.Data[skip:]
		}
		pos[o.Stream] = o.At + int64(len(o.Data))
		return []Event{{Kind: KindOutput, Output: &o}}, false
	})
}

func (c *Client) session(ctx context.Context, session, what string, from int64) iter.Seq2[Event, error] {
	p := &place{first: max(from, 1), next: max(from, 1), overlap: maxOverlap, pos: map[string]int64{}}
	return c.follow(ctx, func() string {
		return query("/v1/sessions/"+url.PathEscape(session)+"/"+what, "from", p.again())
	}, p.take)
}

// A place records which entries a follower has.
type place struct {
	first, next int64
	seen        []seenEntry
	pos         map[string]int64

	// overlap is how many entries are requested again after a break, to check that they are
	// still valid. It shrinks if they do not arrive before the next break, and grows if
	// none is valid.
	overlap int64
	asked   int64 // first seq of the current stream
}

const maxOverlap = 32

func (p *place) again() int64 {
	p.asked = max(p.first, p.next-min(p.overlap, int64(len(p.seen))))
	p.overlap = max(1, p.overlap/2) // a new entry restores it
	return p.asked
}

// take drops data that was received before. With restart, the stream must be read again.
func (p *place) take(ev Event) (out []Event, restart bool) {
	switch ev.Kind {
	case KindEntry:
		return p.entry(ev)
	case KindVoid:
		if ev.Void >= p.next {
			return nil, false
		}
		p.rewind(ev.Void)
	case KindDelta:
		d := *ev.Delta
		for _, s := range p.seen {
			if s.finishes(d.Item) {
				return nil, false
			}
		}
		key := string(d.Type) + "\x00" + d.Item
		skip := p.pos[key] - d.At
		if skip >= int64(len(d.Text)) {
			return nil, false
		}
		if skip > 0 {
			d.At, d.Text = d.At+skip, d.Text[skip:]
		}
		p.pos[key] = d.At + int64(len(d.Text))
		return []Event{{Kind: KindDelta, Delta: &d}}, false
	}
	return []Event{ev}, false
}

func (p *place) entry(ev Event) (out []Event, restart bool) {
	if ev.Entry.Seq < p.next {
		same := true
		for _, s := range p.seen {
			if s.seq == ev.Entry.Seq {
				same = s.id == ev.Entry.ID
			}
		}
		if same {
			return nil, false
		}
		if ev.Entry.Seq == p.asked && p.asked > p.first && p.asked > p.seen[0].seq {
			p.overlap = keepSeen // none is valid: look further back
			return nil, true
		}
		p.rewind(ev.Entry.Seq)
		out = append(out, Event{Kind: KindVoid, Void: ev.Entry.Seq})
	}
	p.next, p.overlap = ev.Entry.Seq+1, maxOverlap
	p.seen = append(p.seen, seenEntry{ev.Entry.Seq, ev.Entry.ID, finished(ev.Entry)})
	if len(p.seen) > keepSeen {
		p.seen = append(p.seen[:0:0], p.seen[len(p.seen)-keepSeen/2:]...)
	}
	for key := range p.pos {
		if _, item, _ := cutKey(key); item != "" && item == finished(ev.Entry) {
			delete(p.pos, key)
		}
	}
	return append(out, ev), false
}

func (p *place) rewind(seq int64) {
	p.next = seq
	for i, s := range p.seen {
		if s.seq >= seq {
			p.seen = p.seen[:i:i]
			return
		}
	}
}

// errCut means that the stream ended without its last line.
var errCut = errors.New("the stream was cut")

// follow reads a stream to its last line, and reconnects after breaks.
func (c *Client) follow(ctx context.Context, path func() string, take func(Event) ([]Event, bool)) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		stopped := false
		for !stopped {
			// Each break gets a new back-off: events prove that the worker answered.
			progress, restart := false, false
			backoff := retry.WithMaxDuration(c.patience, retry.WithCappedDuration(2*time.Second, retry.WithJitterPercent(20, retry.NewExponential(100*time.Millisecond))))
			err := retry.Do(ctx, backoff, func(ctx context.Context) error {
				err := c.stream(ctx, path(), func(ev Event) bool {
					progress = true
					if ev.Kind == KindAlive {
						return true
					}
					var news []Event
					news, restart = take(ev)
					for _, ev := range news {
						if stopped = !yield(ev, nil); stopped {
							return false
						}
					}
					return !restart
				})
				if (errors.Is(err, ErrUnreachable) || errors.Is(err, errCut)) && !progress && ctx.Err() == nil {
					return retry.RetryableError(err)
				}
				return err
			})
			switch {
			case stopped:
				return
			case restart:
				continue
			case err == nil:
				return
			case ctx.Err() != nil:
				yield(Event{}, context.Cause(ctx))
				return
			case progress && (errors.Is(err, errCut) || errors.Is(err, ErrUnreachable)):
				continue
			}
			if errors.Is(err, errCut) {
				err = fmt.Errorf("%w at %s: %w", ErrUnreachable, c.endpoint, errCut)
			}
			yield(Event{}, err)
			return
		}
	}
}

// stream returns nil at the last line, or if take returned false.
func (c *Client) stream(ctx context.Context, path string, take func(Event) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	resp, err := c.send(ctx, "GET", path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	quiet := time.AfterFunc(silence, func() { cancel(errCut) })
	defer quiet.Stop()
	lines := bufio.NewReaderSize(resp.Body, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if errors.Is(err, io.EOF) || context.Cause(ctx) == errCut || ctx.Err() == nil {
				return errCut // also a partial line, which is sent again
			}
			return context.Cause(ctx)
		}
		quiet.Reset(silence)
		var ev Event
		if err := json.Unmarshal(line, &ev); err != nil {
			return fmt.Errorf("read the feed of the worker at %s: %w", c.endpoint, err)
		}
		if ev.Kind == KindError && ev.Error != nil {
			return ev.Error
		}
		if !take(ev) || ev.Kind == KindEnd {
			return nil
		}
	}
}
