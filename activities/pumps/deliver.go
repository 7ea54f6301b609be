package pumps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/seeds"
)

const (
	deliverWait = 15 * time.Minute
	// troubles limits the tries. The pause before the second is twice deliverPause, and
	// doubles for each further one.
	troubles     = 3
	deliverPause = 500 * time.Millisecond

	maxDeliverName  = 200     // bytes
	maxDeliverPath  = 4 << 10 // bytes, the kernel's limit
	MaxDeliverWords = 2 << 10 // bytes
)

type deliverArgs struct {
	Path        string `json:"path"`
	Name        string `json:"name"`
	Description string `json:"description"`
}

// A Refusal is the final reason that the model gets for a call.
type Refusal string

func (r Refusal) Error() string { return string(r) }

func refusef(format string, args ...any) error { return Refusal(fmt.Sprintf(format, args...)) }

func (a *deliverArgs) check() error {
	switch {
	case a.Path == "":
		return Refusal("path is empty: say which file is to be delivered.")
	case len(a.Path) > maxDeliverPath || strings.ContainsFunc(a.Path, unicode.IsControl) || !utf8.ValidString(a.Path):
		return Refusal("path is too long or has control characters in it: rename the file and deliver it under the new name.")
	}
	if a.Name == "" {
		a.Name = path.Base(a.Path)
	}
	switch {
	case strings.Contains(a.Name, "/"):
		return Refusal("name has a slash in it: give a plain file name.")
	case a.Name == "." || a.Name == ".." || strings.TrimSpace(a.Name) == "" || len(a.Name) > maxDeliverName ||
		strings.ContainsFunc(a.Name, unicode.IsControl) || !utf8.ValidString(a.Name):
		return refusef("name is not one for a file, or has more than %d bytes: give a plain one such as report.md.", maxDeliverName)
	case len(a.Description) > MaxDeliverWords:
		return refusef("description has %d bytes, at most %d are kept: say it shorter.", len(a.Description), MaxDeliverWords)
	}
	return nil
}

func (t *ToolShop) deliver(ctx context.Context, call conversation.ToolCall) (conversation.ToolReply, error) {
	t.mu.Lock() // the limits count all files of the session
	defer t.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, deliverWait, errTooSlow)
	defer cancel()
	var err error
	for try := range troubles {
		if try > 0 {
			select {
			case <-time.After(deliverPause << try):
			case <-ctx.Done():
			}
		}
		var h records.Handover
		if h, err = t.handOver(ctx, call); err == nil {
			if t.Site.Delivered != nil {
				t.Site.Delivered()
			}
			return h.Reply(), nil
		}
		if ctx.Err() != nil {
			break
		}
		t.Site.Logger.Warn("a file is not delivered yet", "session", t.Session, "call", call.ID, "error", t.Hide.All.String(err.Error()))
	}
	switch {
	case errors.Is(context.Cause(ctx), errTooSlow):
		return conversation.ToolReply{Text: fmt.Sprintf("The file was not delivered: it did not arrive within %s. Deliver a smaller one, or try once more later.", deliverWait)}, nil
	case ctx.Err() != nil:
		return conversation.ToolReply{}, context.Cause(ctx) // the next attempt delivers it
	}
	return conversation.ToolReply{Text: "The file was not delivered: there is trouble on our side, not on yours. Go on with other work and try once more later."}, nil
}

var errTooSlow = errors.New("the file does not arrive")

// handOver returns the recorded outcome of a call, or makes and records it.
func (t *ToolShop) handOver(ctx context.Context, call conversation.ToolCall) (records.Handover, error) {
	key := records.HandoverKey(t.Session, call.ID)
	if h, err := records.ReadHandover(ctx, t.Site.Store, key); !errors.Is(err, store.ErrNotFound) {
		return h, err
	}
	if t.past == nil {
		past, err := records.ListHandovers(ctx, t.Site.Store, t.Session)
		if err != nil {
			return records.Handover{}, err
		}
		t.past = append([]records.Handover{}, past...)
	}
	if len(t.past) >= t.Limits.SessionCalls {
		return records.Handover{Refused: fmt.Sprintf("this session has called for it %d times, and no more than that is taken. Say in your answer where the file is.", len(t.past))}, nil
	}
	h, err := t.take(ctx, call)
	var no Refusal
	if errors.As(err, &no) {
		h.Content, h.Bytes, h.Digest, h.Refused = "", 0, "", string(no)
	} else if err != nil {
		return h, err
	}
	kit.HideIn(t.Hide.All, &h)
	data, err := json.Marshal(h)
	if err != nil {
		return h, fmt.Errorf("encode what was delivered: %w", err)
	}
	err = t.Site.Store.Create(ctx, key, data)
	if errors.Is(err, store.ErrExists) { // by another attempt
		return records.ReadHandover(ctx, t.Site.Store, key)
	}
	if err == nil {
		t.past = append(t.past, h)
	}
	return h, err
}

// take brings the file into the store, or returns a Refusal.
func (t *ToolShop) take(ctx context.Context, call conversation.ToolCall) (h records.Handover, err error) {
	h = records.Handover{Deliverable: protocol.Deliverable{Session: t.Session, Call: call.ID, Turn: call.Turn, At: t.Site.Now().UTC()}}
	var a deliverArgs
	if err := json.Unmarshal(call.Args, &a); err != nil {
		return h, Refusal("the arguments are not as described.")
	}
	err = a.check()
	h.Name, h.Path, h.Description = a.Name, a.Path, strings.TrimSpace(a.Description)
	if err != nil {
		return h, err
	}
	// The model's words may contain a secret.
	if words := a.Path + "\n" + a.Name + "\n" + a.Description; t.Hide.All != nil && t.Hide.All.String(words) != words {
		return h, Refusal("its path, name or description holds a credential.")
	}
	b := hostexec.Below{Folder: t.Layout.WorkDir, Path: a.Path, Max: t.Limits.MaxBytes, Without: t.Layout.Root}
	if t.Layout.OwnWork { // our root may have links, too
		b.Base = t.Layout.Root
	}
	for range 3 {
		if h, err = t.bring(ctx, h, b); !errors.Is(err, hostexec.Changed) {
			break
		}
	}
	return h, Said(err, a.Path)
}

// Said makes a Refusal of a host's reason to give no file. It returns other errors
// unchanged.
func Said(err error, name string) error {
	var large *hostexec.TooLargeError
	var why hostexec.NotGiven
	switch {
	case errors.As(err, &large):
		return refusef("%s has %d bytes, and at most %d are taken. Deliver a smaller file: compress it, split it, or leave out what is not needed.", name, large.Size, large.Max)
	case errors.Is(err, hostexec.ErrUnsupported): // no other try can help
		return Refusal("this host cannot give files: it has no /proc, readlink or stat. Say in your answer where the file is.")
	case !errors.As(err, &why):
		return err
	}
	switch why {
	case hostexec.NotThere:
		return refusef("there is no file %s. Paths are taken from the working directory.", name)
	case hostexec.LeadsNowhere:
		return refusef("%s is a symbolic link that leads to no file.", name)
	case hostexec.Outside:
		return refusef("%s lies outside of the working directory, perhaps by a symbolic link. Copy it into the working directory and deliver the copy.", name)
	case hostexec.IsFolder:
		return refusef("%s is a directory. Pack it into an archive in the working directory and deliver that.", name)
	case hostexec.NotAFile:
		return refusef("%s is no regular file.", name)
	case hostexec.Unreadable:
		return refusef("%s cannot be read. Make it readable for its owner.", name)
	case hostexec.Changed:
		return refusef("%s was being written while it was read. Deliver it once it is complete.", name)
	case hostexec.NoFolder:
		return Refusal("the working directory is gone, or a symbolic link has taken its place.")
	}
	return err
}

func (t *ToolShop) bring(ctx context.Context, h records.Handover, b hostexec.Below) (_ records.Handover, err error) {
	host, err := t.Site.Host(t.Spec)
	if err != nil {
		return h, err
	}
	c := &content{shop: t, ctx: ctx}
	defer c.abort()
	f, err := hostexec.ReadBelow(ctx, host, b, func(f hostexec.BelowFile) (io.Writer, error) { return c.begin(f, h.Call) })
	if err != nil {
		return h, err
	}
	if c.key, err = c.finish(); err != nil {
		return h, err
	}
	h.Content, h.Path, h.Bytes, h.Digest = c.key, f.Path, f.Size, f.SHA256
	return h, nil
}

// A content is a file on its way into the store. A session stores equal content once, but
// searches it each time.
type content struct {
	shop *ToolShop
	ctx  context.Context //nolint:containedctx // lives no longer than bring
	key  string
	to   *store.Writer // nil if stored already
	seek *seeds.Stream // nil without known secrets
}

func (c *content) begin(f hostexec.BelowFile, call string) (io.Writer, error) {
	t := c.shop
	name := "call-" + call // the host cannot compute its digest
	if f.SHA256 != "" {
		var err error
		if name, err = t.Site.Store.Name([]byte("deliverable " + f.SHA256)); err != nil {
			return nil, err
		}
	}
	c.key = records.ContentKey(t.Session, name)
	if slices.ContainsFunc(t.past, func(h records.Handover) bool { return h.Content == c.key }) {
		// its record says that the stored content is complete
	} else if sum := t.total() + f.Size; sum > t.Limits.SessionBytes {
		return nil, refusef("with it the session would have delivered %d bytes, and at most %d are taken. Deliver only what is needed.", sum, t.Limits.SessionBytes)
	} else {
		w, err := t.Site.Store.NewWriter(c.ctx, c.key)
		if err != nil {
			return nil, err
		}
		c.to = w
	}
	if t.Hide.All != nil {
		c.seek = t.Hide.All.Stream()
	}
	return c, nil
}

func (t *ToolShop) total() (sum int64) {
	seen := map[string]bool{}
	for _, h := range t.past {
		if h.Refused == "" && !seen[h.Content] {
			seen[h.Content] = true
			sum += h.Bytes
		}
	}
	return sum
}

var errHoldsSecret = Refusal("it holds a credential. Take that out and deliver it again.")

func (c *content) Write(p []byte) (int, error) {
	if c.seek != nil {
		c.seek.Next(p)
		if c.seek.Count() > 0 {
			return 0, errHoldsSecret
		}
	}
	if c.to == nil {
		return len(p), nil
	}
	return c.to.Write(p)
}

func (c *content) finish() (key string, err error) {
	if c.seek != nil {
		c.seek.Flush()
		if c.seek.Count() > 0 {
			return "", errHoldsSecret
		}
	}
	if c.to != nil {
		err = c.to.Close()
	}
	return c.key, err
}

func (c *content) abort() {
	if c.to != nil {
		c.to.Abort()
	}
}
