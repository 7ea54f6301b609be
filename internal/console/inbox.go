package console

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/protocol"
)

// A card is an approval with what a person needs to decide it.
type card struct {
	protocol.Approval
	// Decides says that the person may decide it, and Whole that the page shows all of it.
	Decides, Whole bool
	Key            string // of the form
	Alone          bool   // the page is about this card
	Keyed          bool   // the person has a passkey for it
}

// HighRisk reports whether the policy wants a passkey of who accepts it.
func (c card) HighRisk() bool { return c.Ruling != nil && c.Ruling.Risk == protocol.RiskHigh }

// Open reports whether the approval waits for a decision.
func (c card) Open() bool { return c.State == protocol.ApprovalOpen }

// Accepts reports whether the page may offer to accept it: everything that the digest covers is
// shown, and no signature of the person's own is needed.
func (c card) Accepts() bool {
	return c.Open() && c.Decides && c.Whole && !c.Signed && c.DigestCheck == protocol.DigestGiven && diffOf(c.Changes).More == 0
}

// Offers reports whether an answer is possible.
func (c card) Offers(word string) bool { return slices.Contains(c.Offered, word) }

// Steps are the stages of a decision's delivery.
func (c card) Steps() []step {
	order := []protocol.ApprovalState{protocol.ApprovalDecided, protocol.ApprovalSent, protocol.ApprovalAcknowledged}
	at := slices.Index(order, c.State)
	if c.Decision == nil || at < 0 {
		return nil
	}
	words := []string{"recorded", "sent to codex", "acknowledged by codex"}
	var all []step
	for i, w := range words {
		all = append(all, step{w, i <= at})
	}
	return all
}

type step struct {
	Word string
	Done bool
}

type inboxView struct {
	Cards []card
	Waits int // open approvals, shown or not
	More  int // those that are not shown
	Next  int // how many to show next, 0 for no more
	// Digest is what the stream of the inbox tells of these approvals. It is empty if the API was asked
	// for them: the stream may then tell of others, and the page is made anew.
	Digest string
}

const (
	// fewCards are on the inbox at first, so that it opens fast. The script asks for more when
	// the person comes to their end.
	fewCards = 15
	// maxCards bounds the cards on one page.
	maxCards = 200
)

// inbox lists open approvals, those that expire first at the top. The query says how many.
func (v *visit) inbox() error {
	shown := fewCards
	if n, err := strconv.Atoi(v.r.FormValue("cards")); err == nil {
		shown = min(max(n, fewCards), maxCards)
	}
	const live = "/live?of=inbox"
	if err := v.early(v.frame("Inbox", "inbox", live)); err != nil {
		return err
	}
	list, asks, known := recent(v)
	if !known {
		var err error
		if list, err = approvals(v, ""); err != nil {
			return err
		}
	}
	cards, more := v.cards(list, shown)
	view := inboxView{Cards: cards, Waits: len(cards) + more, More: more}
	if known {
		view.Digest = readable(v, asks)
	}
	if more > 0 && shown < maxCards {
		view.Next = min(2*shown, maxCards)
	}
	return v.show(http.StatusOK, "inbox", "Inbox", "inbox", live, view)
}

// recent returns the open approvals that the person may read, if they are known without asking. asks
// has the digests of all sessions, also of those that the person may not read.
func recent(v *visit) (list []protocol.Approval, asks map[string]string, known bool) {
	all, asks, known := v.opts.Inbox.Recent()
	reads := map[string]bool{}
	for _, ap := range all {
		may, asked := reads[ap.Session]
		if !asked {
			may = v.may(access.SessionRead, ap.Session)
			reads[ap.Session] = may
		}
		if may {
			list = append(list, ap)
		}
	}
	return list, asks, known
}

// approvals asks the API for the open approvals of a session, or of all.
func approvals(v *visit, session string) ([]protocol.Approval, error) {
	var page struct {
		Items  []protocol.Approval `json:"items"`
		Cursor string              `json:"cursor"`
	}
	q := url.Values{"limit": {"500"}}
	if session != "" {
		q.Set("session", session)
	}
	err := v.get("/v1/approvals?"+q.Encode(), &page)
	return page.Items, err
}

// cards returns the first open approvals of a list, and how many more there are.
func (v *visit) cards(list []protocol.Approval, limit int) (cards []card, more int) {
	open := slices.DeleteFunc(list, func(ap protocol.Approval) bool { return ap.State != protocol.ApprovalOpen })
	slices.SortStableFunc(open, func(a, b protocol.Approval) int {
		return cmp.Or(a.ExpiresAt.Compare(b.ExpiresAt), a.AskedAt.Compare(b.AskedAt), strings.Compare(a.ID, b.ID))
	})
	if len(open) > limit {
		open, more = open[:limit], len(open)-limit
	}
	seen, decides := v.views(open), map[string]bool{}
	for _, ap := range open {
		may, known := decides[ap.Session]
		if !known {
			may = v.may(access.ApprovalDecide, ap.Session)
			decides[ap.Session] = may
		}
		cards = append(cards, v.card(ap, seen[ap.Session], may))
	}
	return cards, more
}

func (v *visit) card(ap protocol.Approval, of protocol.SessionView, decides bool) card {
	ap.Host, ap.Sandbox = cmp.Or(ap.Host, of.Host), cmp.Or(ap.Sandbox, of.Options["sandbox"])
	c := card{Approval: ap, Decides: decides, Whole: !ap.Truncated, Key: newKey()}
	c.Keyed = c.HighRisk() && c.Open() && c.Decides && len(passkeyVisit{v}.usable()) > 0
	return c
}

// views asks the sessions of approvals that do not say their host, several at a time: a worker of
// an older version answered for them. One that does not answer is left out: its card is shown
// without its host.
func (v *visit) views(list []protocol.Approval) map[string]protocol.SessionView {
	ctx, cancel := context.WithTimeout(v.r.Context(), 5*time.Second)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	out := map[string]protocol.SessionView{}
	slots := make(chan struct{}, 8)
	var ids []string
	for _, ap := range list {
		if ap.Host == "" {
			ids = append(ids, ap.Session)
		}
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			var s protocol.SessionView
			if v.ask(ctx, http.MethodGet, "/v1/sessions/"+id, "", nil, &s) == nil {
				mu.Lock()
				defer mu.Unlock()
				out[id] = s
			}
		})
	}
	wg.Wait()
	return out
}

func (v *visit) readCard(id string) (card, error) {
	session, _, ok := protocol.CutApproval(id)
	if !ok {
		return card{}, &Problem{Status: http.StatusNotFound, Detail: "there is no such approval"}
	}
	var ap protocol.Approval
	if err := v.get("/v1/approvals/"+url.PathEscape(id), &ap); err != nil {
		return card{}, err
	}
	of := v.views([]protocol.Approval{ap})[session]
	c := v.card(ap, of, v.may(access.ApprovalDecide, session))
	c.Alone = true
	return c, nil
}

func (v *visit) approval() error {
	id := v.r.PathValue("id")
	c, err := v.readCard(id)
	if err != nil {
		return err
	}
	return v.show(http.StatusOK, "approval", "Approval "+c.ID, "inbox", "/live?of=approval&id="+url.QueryEscape(c.ID), c)
}

// decide records a decision, and leads to the card, which shows how far it has come. If it does
// not count, the card says who decided, or why nobody can.
func (v *visit) decide() error {
	id := v.r.PathValue("id")
	body, err := v.decision(id)
	if err == nil {
		err = v.ask(v.r.Context(), http.MethodPost, "/v1/approvals/"+url.PathEscape(id)+"/decision", v.formKey(), body, nil)
	}
	if err == nil {
		if session, _, ok := protocol.CutApproval(id); ok {
			v.opts.Inbox.Stir(session) // the next inbox of this browser shows the decision
		}
		return v.see("/approvals/" + url.PathEscape(id))
	}
	p, told := err.(*Problem)
	if !told || p.Status == http.StatusUnauthorized {
		return err
	}
	c, rerr := v.readCard(id)
	if rerr != nil {
		return err
	}
	return v.showWith(p, p.Status, "approval", "Approval "+c.ID, "inbox", "/live?of=approval&id="+url.QueryEscape(c.ID), c)
}

// A decision is the body of a decision.
type decision struct {
	Digest      string            `json:"digest"`
	Outcome     string            `json:"outcome"`
	Scope       string            `json:"scope,omitempty"`
	Reason      string            `json:"reason,omitempty"`
	Answers     json.RawMessage   `json:"answers,omitempty"`
	AnswersBlob string            `json:"answers_blob,omitempty"`
	Grant       json.RawMessage   `json:"grant,omitempty"`
	Passkey     *protocol.Passkey `json:"passkey,omitempty"`
}

// decision reads the form of a card. It counts for the digest that the form was made for.
func (v *visit) decision(id string) (decision, error) {
	f := v.r.PostForm
	d := decision{Digest: f.Get("digest"), Outcome: f.Get("outcome"), Reason: f.Get("reason")}
	if o, ok := strings.CutSuffix(d.Outcome, "_for_session"); ok {
		d.Outcome, d.Scope = o, "session"
	}
	if signed := f.Get("passkey"); signed != "" {
		if err := json.Unmarshal([]byte(signed), &d.Passkey); err != nil {
			return d, &Problem{Status: http.StatusBadRequest, Detail: "what the passkey signed cannot be read"}
		}
	}
	switch d.Outcome {
	case "grant":
		d.Grant = json.RawMessage(f.Get("grant"))
	case string(protocol.Revise):
		raw, err := json.Marshal(map[string]string{protocol.CommentsAnswer: f.Get("comments")})
		if err != nil {
			return d, err
		}
		d.Answers = raw
	case "answer":
		return d, v.answers(id, &d)
	}
	return d, nil
}

// answers reads the answers of a form. Secret ones go to the store, as the API wants it.
func (v *visit) answers(id string, d *decision) error {
	var ap protocol.Approval
	if err := v.get("/v1/approvals/"+url.PathEscape(id), &ap); err != nil {
		return err
	}
	if d.Digest != ap.Digest {
		return &Problem{Status: http.StatusConflict, Detail: "the request has changed: look at it again"}
	}
	open, secret, apart := map[string][]string{}, map[string][]string{}, []string{}
	for _, q := range ap.Questions {
		var given []string
		for _, text := range append(v.r.PostForm["answer."+q.ID], v.r.PostForm["other."+q.ID]...) {
			if text != "" {
				given = append(given, text)
			}
		}
		switch {
		case len(given) == 0 && q.Optional:
		case len(given) == 0:
			return &Problem{Status: http.StatusBadRequest, Detail: fmt.Sprintf("question %q has no answer", cut(cmp.Or(q.Header, q.Text, q.ID), 80))}
		case q.Secret:
			secret[q.ID] = given
		default:
			open[q.ID], apart = given, append(apart, q.ID)
		}
	}
	if len(secret) > 0 {
		var stored struct {
			Blob string `json:"blob"`
		}
		body := map[string]any{"answers": secret, "apart": apart}
		if ap.Missing > 1 || ap.Signed {
			body["approval"] = ap.ID
		}
		if err := v.ask(v.r.Context(), http.MethodPost, "/v1/sessions/"+url.PathEscape(ap.Session)+"/requests/"+url.PathEscape(ap.Digest)+"/answers", "", body, &stored); err != nil {
			return err
		}
		d.AnswersBlob = stored.Blob
	}
	if len(open) > 0 {
		raw, err := json.Marshal(open)
		if err != nil {
			return err
		}
		d.Answers = raw
	}
	return nil
}
