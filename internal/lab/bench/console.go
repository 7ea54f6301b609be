package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// measureConsole has the inbox open, as a browser has it, while the real codex asks. It decides
// each card by the card's form.
func measureConsole(ctx context.Context, o *options) (err error) {
	const warm = 3
	f, err := newFleet(ctx, lab.Options{Repo: o.repo, Script: asking(o.decide + warm), Keep: o.keep}, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.lab.ImportSeed(ctx, "bench"); err != nil {
		return err
	}
	in, err := openInbox(ctx, f.lab)
	if err != nil {
		return err
	}
	defer in.stream.Close()
	if err := f.start(ctx, "ask", session.Options{Host: "web-1", Seed: "bench"}, "ask"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close(context.WithoutCancel(ctx), []string{"ask"})) }()
	ws, err := f.workers()
	if err != nil {
		return err
	}
	wire, err := f.watch(ctx, "ask", []string{ws[0].API})
	if err != nil {
		return err
	}
	defer wire.Close()
	var visible, recorded, acked series
	for i := range o.decide + warm {
		id := fmt.Sprintf("ask.%d", i+1)
		form, at, err := in.shows(id)
		if err != nil {
			return err
		}
		a, err := f.waits(ctx, "ask", i+1)
		if err != nil {
			return err
		}
		begin := time.Now()
		if err := in.accepts(ctx, id, form); err != nil {
			return err
		}
		clicked := time.Since(begin)
		sent := protocol.SendID("ask", i+1)
		late, cancel := context.WithTimeout(ctx, time.Minute)
		err = wire.await(late, "the acknowledgement of "+id, func() bool { return !wire.acks[sent].IsZero() })
		cancel()
		if err != nil {
			return err
		}
		if i >= warm {
			wire.mu.Lock()
			visible, recorded, acked = append(visible, at.Sub(a.AskedAt)), append(recorded, clicked), append(acked, wire.acks[sent].Sub(begin))
			wire.mu.Unlock()
		}
	}
	visible.against("a request on record, until its card is in an open inbox", 300*time.Millisecond)
	recorded.against("a card's button, until the decision is on record", 150*time.Millisecond)
	acked.against("a card's button, until codex has acknowledged it", 500*time.Millisecond)
	return nil
}

// An inbox is the inbox as an open tab has it: a stream says when to get the page again.
type inbox struct {
	base   string
	c      *http.Client
	stream io.ReadCloser
	lines  *bufio.Scanner
	page   string
}

func openInbox(ctx context.Context, l *lab.Lab) (*inbox, error) {
	link, err := l.Out(ctx, "ui", "--no-browser")
	if err != nil {
		return nil, err
	}
	link = strings.TrimSpace(link)
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	in := &inbox{c: &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	in.base, _, _ = strings.Cut(link, "/login")
	if _, err := in.get(ctx, link); err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, in.base+"/live?of=inbox", nil)
	if err != nil {
		return nil, err
	}
	got, err := in.c.Do(r)
	if err != nil {
		return nil, err
	}
	in.stream, in.lines = got.Body, bufio.NewScanner(got.Body)
	return in, nil
}

func (in *inbox) get(ctx context.Context, address string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	got, err := in.c.Do(r)
	if err != nil {
		return "", err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err == nil && got.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("GET %s: %s", address, got.Status)
	}
	return string(text), err
}

var cardField = regexp.MustCompile(`name="(key|digest)" value="([^"]+)"`)

// shows waits until the inbox has a card, and returns what its form sends, and when it came.
func (in *inbox) shows(id string) (form url.Values, at time.Time, err error) {
	for in.lines.Scan() {
		if in.lines.Text() != "event: changed" {
			continue
		}
		if in.page, err = in.get(context.Background(), in.base+"/"); err != nil {
			return nil, at, err
		}
		_, card, found := strings.Cut(in.page, `id="card-`+id+`"`)
		if !found {
			continue
		}
		at, form = time.Now(), url.Values{"outcome": {"accept"}}
		card, _, _ = strings.Cut(card, "</article>")
		for _, m := range cardField.FindAllStringSubmatch(card, -1) {
			form.Set(m[1], m[2])
		}
		return form, at, nil
	}
	return nil, at, errors.Join(errors.New("the stream of the inbox has ended"), in.lines.Err())
}

func (in *inbox) accepts(ctx context.Context, id string, form url.Values) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, in.base+"/approvals/"+id+"/decision", strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	got, err := in.c.Do(r)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	if _, err := io.Copy(io.Discard, got.Body); err != nil {
		return err
	}
	if got.StatusCode != http.StatusSeeOther {
		return fmt.Errorf("decide %s: %s", id, got.Status)
	}
	return nil
}
