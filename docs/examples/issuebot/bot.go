package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
)

// mostEvent is GitHub's own limit on the size of an event.
const mostEvent = 25 << 20

// mostComment bounds a comment: GitHub takes 65,536 characters.
const mostComment = 60_000

var (
	deliveryID = regexp.MustCompile(`^[0-9a-fA-F-]{8,64}$`)
	repoName   = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}$`)
)

// start is the request POST /v1/sessions.
type start struct {
	Host           string   `json:"host,omitempty"`
	Seed           string   `json:"seed,omitempty"`
	Sandbox        string   `json:"sandbox"`
	ApprovalPolicy string   `json:"approval_policy"`
	CloseAfter     bool     `json:"close_after"`
	Message        *message `json:"message"`
}

type message struct {
	Text string `json:"text"`
}

type bot struct {
	secret, label  string
	start          start
	book           *book
	worker, github remote
	log            *slog.Logger
	poll           time.Duration
	settle         time.Duration // until a comment that was sent is seen, or will never be
	pause          func(context.Context, time.Duration) error

	ctx  context.Context //nolint:containedctx // of all work
	mu   sync.Mutex      // an event is looked up and kept by one request at a time
	work sync.WaitGroup
}

// pause waits, or returns why ctx ended before.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// serve goes on with what an earlier process has begun, and takes events until ctx ends.
func (b *bot) serve(ctx context.Context, listen string) error {
	b.ctx = ctx
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	begun, err := b.book.open()
	if err != nil {
		ln.Close()
		return err
	}
	for _, d := range begun {
		b.begin(d)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /webhook", b.event)
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	fmt.Printf("listening on %s\n", ln.Addr())
	if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	b.work.Wait()
	return nil
}

// event answers GitHub when the event is kept, and not when its work is done.
func (b *bot) event(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostEvent))
	switch {
	case err != nil:
		http.Error(w, "the event could not be read", http.StatusBadRequest)
		return
	case !signed(b.secret, body, r.Header.Get("X-Hub-Signature-256")):
		http.Error(w, "the signature in X-Hub-Signature-256 is not that of the event", http.StatusUnauthorized)
		return
	}
	d, wanted, err := b.read(r.Header.Get("X-GitHub-Event"), r.Header.Get("X-GitHub-Delivery"), body)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	case !wanted:
		w.WriteHeader(http.StatusNoContent)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.book.knows(d.ID) { // GitHub sends an event again if an answer was lost
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if err := b.book.keep(d); err != nil {
		err = errors.Join(err, b.book.forget(d.ID)) // it may be there half
		b.log.Error("an event was not kept", "delivery", d.ID, "header", d.Header, "err", err)
		http.Error(w, "the event could not be kept: send it again", http.StatusInternalServerError)
		return
	}
	b.begin(d)
	w.WriteHeader(http.StatusAccepted)
}

// signed reports whether a signature is that of GitHub for a body.
func signed(secret string, body []byte, signature string) bool {
	sum, err := hex.DecodeString(strings.TrimPrefix(signature, "sha256="))
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return err == nil && strings.HasPrefix(signature, "sha256=") && hmac.Equal(sum, mac.Sum(nil))
}

// read returns the delivery of an event, and whether it is one that starts a session. The delivery is
// known by what GitHub signed, and X-GitHub-Delivery is not: whoever has seen an event could send it
// again under another one.
func (b *bot) read(event, header string, body []byte) (d delivery, wanted bool, err error) {
	if event != "issues" {
		return d, false, nil
	}
	var ev struct {
		Action string `json:"action"`
		Label  struct {
			Name string `json:"name"`
		} `json:"label"`
		Issue struct {
			Number int    `json:"number"`
			Title  string `json:"title"`
			Body   string `json:"body"`
		} `json:"issue"`
		Repository struct {
			FullName string `json:"full_name"`
		} `json:"repository"`
	}
	if err := json.Unmarshal(body, &ev); err != nil {
		return d, false, fmt.Errorf("the event is no JSON of GitHub: %w", err)
	}
	if ev.Action != "labeled" || ev.Label.Name != b.label {
		return d, false, nil
	}
	if !repoName.MatchString(ev.Repository.FullName) || ev.Issue.Number < 1 {
		return d, false, errors.New("the event does not say which repository and issue it is about")
	}
	if !deliveryID.MatchString(header) {
		header = ""
	}
	sum := sha256.Sum256(body)
	return delivery{ID: hex.EncodeToString(sum[:]), Header: header, Repo: ev.Repository.FullName, Issue: ev.Issue.Number, Title: ev.Issue.Title, Body: ev.Issue.Body}, true, nil
}

// begin works on a delivery until its comment is there, or GitHub refuses it. What else fails is tried
// again, with pauses up to a minute.
func (b *bot) begin(d delivery) {
	b.work.Go(func() {
		for wait := b.poll; ; wait = min(2*wait, time.Minute) {
			err := b.answer(&d)
			if err == nil || b.ctx.Err() != nil {
				return
			}
			b.log.Warn("tried again", "delivery", d.ID, "header", d.Header, "issue", fmt.Sprintf("%s#%d", d.Repo, d.Issue), "in", wait, "err", err)
			if b.pause(b.ctx, wait) != nil {
				return
			}
		}
	})
}

// answer starts the session of a delivery, waits for its turn, and posts the comment. Each step is
// written down, and can be done again.
func (b *bot) answer(d *delivery) error {
	text, err := b.run(d)
	if err != nil {
		return err
	}
	err = b.comment(d, text)
	if _, final := refused(err); !final {
		return err
	}
	d.Failed = err.Error()
	b.log.Error("GitHub refuses the comment: it is not tried again", "delivery", d.ID, "header", d.Header, "issue", fmt.Sprintf("%s#%d", d.Repo, d.Issue), "err", err)
	return b.book.keep(*d)
}

// run returns what the comment is to say: the session's result, or why there is none.
func (b *bot) run(d *delivery) (string, error) {
	if d.Refused != "" {
		return d.Refused, nil
	}
	if d.Session == "" {
		err := b.startSession(d)
		if why, final := refused(err); final {
			return b.refusal(d, "The session could not be started: "+why)
		}
		if err != nil {
			return "", fmt.Errorf("start a session: %w", err)
		}
	}
	text, err := b.result(d.Session)
	if why, final := refused(err); final {
		return b.refusal(d, fmt.Sprintf("The result of session `%s` could not be read: %s", d.Session, why))
	}
	return text, err
}

func (b *bot) refusal(d *delivery, text string) (string, error) {
	d.Refused = text
	return text, b.book.keep(*d)
}

// startSession does so by the request that is written down.
func (b *bot) startSession(d *delivery) error {
	if d.Start == nil {
		in := b.start
		in.Message = &message{Text: fmt.Sprintf("%s\n\n%s", d.Title, d.Body)}
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		d.Start = data
		if err := b.book.keep(*d); err != nil {
			return err
		}
	}
	var started struct{ ID string }
	if err := b.worker.ask(b.ctx, http.MethodPost, "/v1/sessions", d.Start, &started, "Idempotency-Key", "github-"+d.ID); err != nil {
		return err
	}
	d.Session = started.ID
	return b.book.keep(*d)
}

// result waits for the end of the session's turn, and of those by which the session goes on with it by
// itself, as it does after a lost process or a limit.
func (b *bot) result(session string) (string, error) {
	for n := 1; ; {
		var turn struct {
			Status    string    `json:"status"`
			FinalText string    `json:"final_text"`
			EndedAt   time.Time `json:"ended_at"`
			// FollowedBy is in the same answer as EndedAt: the session sets both at once.
			FollowedBy int `json:"followed_by"`
			Error      *struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		if err := b.worker.ask(b.ctx, http.MethodGet, fmt.Sprintf("/v1/sessions/%s/turns/%d", session, n), nil, &turn); err != nil {
			return "", fmt.Errorf("look at session %s: %w", session, err)
		}
		switch {
		case !turn.EndedAt.IsZero() && turn.FollowedBy > n:
			n = turn.FollowedBy
			continue
		case turn.Status == "completed":
			return turn.FinalText, nil
		case !turn.EndedAt.IsZero() && turn.Error != nil:
			return fmt.Sprintf("The turn of session `%s` ended as %s: %s", session, turn.Status, turn.Error.Message), nil
		case !turn.EndedAt.IsZero():
			return fmt.Sprintf("The turn of session `%s` ended as %s.", session, turn.Status), nil
		}
		if err := b.pause(b.ctx, b.poll); err != nil {
			return "", err
		}
	}
}

// comment posts the result once. GitHub has no Idempotency-Key for comments, so the comment has a mark that
// nobody else can make. The program looks for the mark before it posts.
func (b *bot) comment(d *delivery, text string) error {
	mac := hmac.New(sha256.New, []byte(b.secret))
	mac.Write([]byte("comment " + d.ID))
	mark := "<!-- issuebot " + hex.EncodeToString(mac.Sum(nil)) + " -->"
	at := fmt.Sprintf("/repos/%s/issues/%d/comments", d.Repo, d.Issue)
	if !d.Posted.IsZero() { // that comment may be there soon, and not be seen yet
		if wait := min(time.Until(d.Posted.Add(b.settle)), b.settle); wait > 0 {
			if err := b.pause(b.ctx, wait); err != nil {
				return err
			}
		}
	}
	there, err := b.github.commented(b.ctx, at, mark)
	if err != nil {
		return fmt.Errorf("look for the comment: %w", err)
	}
	if !there {
		if short := []rune(text); len(short) > mostComment {
			text = string(short[:mostComment]) + "\n\n… The transcript of the session has the rest."
		}
		d.Posted = time.Now()
		if err := b.book.keep(*d); err != nil {
			return err
		}
		body := map[string]string{"body": text + "\n\n" + mark}
		if err := b.github.ask(b.ctx, http.MethodPost, at, body, nil); err != nil {
			var told *statusError
			if errors.As(err, &told) && told.status < http.StatusInternalServerError { // GitHub did not take it
				d.Posted = time.Time{}
			}
			return fmt.Errorf("post the comment: %w", err)
		}
	}
	d.Commented = true
	b.log.Info("answered", "delivery", d.ID, "header", d.Header, "issue", fmt.Sprintf("%s#%d", d.Repo, d.Issue), "session", d.Session)
	return b.book.keep(*d)
}
