package activities

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/internal/teamtool"
)

// A handlerTest is a handler of a tool that works on each call until it is opened, and the
// workers that call it.
type handlerTest struct {
	*httptest.Server
	store  *store.Store
	tool   protocol.TeamTool
	secret string
	now    time.Time
	begun  chan struct{}
	open   chan struct{}
	busy   atomic.Bool // refuses what it works on already

	mu    sync.Mutex
	calls map[string]int // by webhook-id
}

func newHandler(t *testing.T) *handlerTest {
	d := &handlerTest{store: newStore(t), now: time.Now(), begun: make(chan struct{}, 10), open: make(chan struct{}), calls: map[string]int{}, secret: filepath.Join(t.TempDir(), "secret")}
	if err := os.WriteFile(d.secret, []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		d.mu.Lock()
		d.calls[r.Header.Get("webhook-id")]++
		d.mu.Unlock()
		if d.busy.Load() {
			http.Error(w, "I am at it", http.StatusConflict)
			return
		}
		d.begun <- struct{}{}
		select {
		case <-d.open:
			_, _ = io.WriteString(w, "deployed")
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(d.Close)
	d.tool = protocol.TeamTool{Name: "deploy", Schema: json.RawMessage(`{}`), Webhook: d.URL + "/deploy"}
	return d
}

// pump returns the tools of the next pump, on another worker late after the first.
func (d *handlerTest) pump(late time.Duration) *pumps.ToolShop {
	s := site.NewSite(site.Deps{
		Store: d.store, ToolTargets: []teamtool.Target{{URL: d.URL + "/", SecretFile: d.secret}},
		Now: func() time.Time { return d.now.Add(late) },
	})
	return &pumps.ToolShop{Site: s, Session: "s", Team: []protocol.TeamTool{d.tool}}
}

var deployCall = conversation.ToolCall{ID: "i1.7", Tool: "deploy", Turn: 2, TurnID: "t", Args: json.RawMessage(`{"to":"production"}`)}

// endWhileItWorks begins a call in a pump that ends while the handler works on it.
func (d *handlerTest) endWhileItWorks(t *testing.T) {
	t.Helper()
	why := errors.New("an approval is to be reported")
	ctx, end := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := d.pump(0).Call(ctx, deployCall)
		done <- err
	}()
	<-d.begun
	end(why)
	if err := <-done; !errors.Is(err, why) {
		t.Fatalf("the first pump: %v", err)
	}
}

func (d *handlerTest) count(t *testing.T, want int) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	all := 0
	for _, n := range d.calls {
		all += n
	}
	if all != want || len(d.calls) > 1 {
		t.Errorf("the handler got %v, want one id, %d times", d.calls, want)
	}
}

func TestANextPumpGetsTheAnswerOfACallThatTheHandlerStillWorksOn(t *testing.T) {
	d := newHandler(t)
	d.endWhileItWorks(t)
	close(d.open)
	for range 2 {
		if r, err := d.pump(0).Call(t.Context(), deployCall); err != nil || r.Text != "deployed" || !r.OK {
			t.Errorf("%+v, %v", r, err)
		}
	}
	d.count(t, 2)
}

func TestANextPumpNeverSaysThatACallWhichWasSentIsNotCarriedOut(t *testing.T) {
	for name, c := range map[string]struct {
		late time.Duration
		mend func(*testing.T, *handlerTest) // before the next pump
		says string
		sent int // times in all
	}{
		"the handler is down": {59 * time.Second, func(_ *testing.T, d *handlerTest) { d.Close() }, "gave no answer within 1m0s (it cannot be reached)", 1},
		"the time is over":    {61 * time.Second, func(*testing.T, *handlerTest) {}, "gave no answer within 1m0s (it was called before", 1},
		"the secret is gone": {59 * time.Second, func(t *testing.T, d *handlerTest) {
			if err := os.Remove(d.secret); err != nil {
				t.Error(err)
			}
		}, "trouble on our side", 1},
		"it is lost":        {0, func(_ *testing.T, d *handlerTest) { d.tool.Webhook = "" }, "description is lost", 1},
		"it is not allowed": {0, func(_ *testing.T, d *handlerTest) { d.tool.Webhook = "https://x.example/deploy" }, "does not allow", 1},
		"another schema":    {0, func(_ *testing.T, d *handlerTest) { d.tool.Schema = json.RawMessage(`{"required":["a"]}`) }, "do not match its schema", 1},
		"it is refused":     {0, func(_ *testing.T, d *handlerTest) { d.busy.Store(true) }, "refused the call: I am at it", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newHandler(t)
			d.endWhileItWorks(t)
			c.mend(t, d)
			began := time.Now()
			r, err := d.pump(c.late).Call(t.Context(), deployCall)
			if err != nil || r.OK || !strings.Contains(r.Text, c.says) || !strings.Contains(r.Text, "may have been carried out") || strings.Contains(r.Text, "not carried out") {
				t.Errorf("%q, %v", r.Text, err)
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("it took %s: the timeout began anew", took)
			}
			d.count(t, c.sent)
			if again, err := d.pump(0).Call(t.Context(), deployCall); err != nil || again != r {
				t.Errorf("then %+v, %v", again, err)
			}
		})
	}
}

func TestACallWhoseBeginningCannotBeRecordedIsNotSent(t *testing.T) {
	d := newHandler(t)
	if err := d.store.Create(t.Context(), "toolcalls/s/"+teamtool.CallID("s", "t", "i1.7")+".begun", []byte("no record")); err != nil {
		t.Fatal(err)
	}
	if r, err := d.pump(0).Call(t.Context(), deployCall); err == nil {
		t.Errorf("it is carried out: %+v", r)
	}
	d.count(t, 0)
}
