package approval

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/term"
	"fairlead.dev/fairlead/internal/protocol"
)

// errElsewhere means that the approval is no longer open.
var errElsewhere = errors.New("decided elsewhere")

// An asking is an approval shown at the terminal.
type asking struct {
	p  *core.Printer
	ap protocol.Approval
	// line prompts for a line, which is not shown if secret. It returns errElsewhere once
	// the approval is no longer open.
	line func(prompt string, secret bool) (string, error)
	// press prompts for a key, and returns as line does. It is nil where people type lines.
	press func(prompt string) (string, error)
	// page shows a text page by page; nil prints it.
	page func(title string, text []term.Line) error
	// unsure is why the digest cannot be checked, or nil.
	unsure *unsure
	at     place
	width  int
	rows   int    // for what is asked
	more   string // where more of it is, if not behind v
}

func newAsking(ctx context.Context, a *core.App, t *conn.Conn, ap protocol.Approval) *asking {
	p, since := core.NewPrinter(a.Err, false), time.Now()
	hear := func(keys bool) (string, error) {
		s, elsewhere, err := answerWhileOpen(ctx, a, t, ap, since, keys)
		if err == nil && elsewhere != "" {
			p.Printf("\n%s\n", p.Paint(core.Dim, elsewhere))
			a.Strayed, err = time.Now(), errElsewhere
		}
		return s, err
	}
	q := &asking{p: p, ap: ap,
		line: func(prompt string, secret bool) (string, error) {
			if secret { // before the prompt
				show, err := a.HideTyping()
				if err != nil {
					return "", err
				}
				defer show()
			}
			p.Printf("%s ", p.Paint(core.Bold, prompt))
			s, err := hear(false)
			if !secret {
				s = strings.TrimSpace(s)
			}
			return s, err
		},
		page: func(title string, text []term.Line) error { return term.Page(ctx, a, title, text) },
	}
	width, height := core.TerminalSize(a.Err)
	q.width, q.rows = width-1, max(height-14, 8)
	if !core.Accessible() && core.IsTerminal(a.In) {
		q.press = func(prompt string) (string, error) {
			lines, err := a.Keys()
			if err != nil {
				return "", err
			}
			defer lines()
			p.Printf("%s ", p.Paint(core.Bold, prompt))
			key, err := hear(true)
			if err == nil && len([]rune(key)) == 1 {
				p.Printf("%s", key)
			}
			p.Printf("\n")
			return key, err
		}
	}
	return q
}

// key asks for one key, or for a line with it where people type lines.
func (q *asking) key(prompt string) (string, error) {
	if q.press != nil {
		return q.press(prompt + " >")
	}
	s, err := q.line(prompt+", then Enter >", false)
	return strings.ToLower(s), err
}

// show prints the card, with as much of what is asked as fits.
func (q *asking) show() {
	c := card{q.ap, q.at}
	q.p.Printf("\n%s %s %s\n", q.p.Paint(core.Yellow, "?"), q.p.Paint(core.Bold, core.OneLine(c.headline(), 200)), q.p.Paint(core.Dim, "· "+q.ap.ID))
	some, more := term.Bounded(c.asked(), q.rows, q.width)
	term.Print(q.p, some)
	if more > 0 {
		q.p.Printf("%s\n", q.p.Paint(core.Yellow, fmt.Sprintf("… %d more lines: %s", more, cmp.Or(q.more, "press v to page"))))
	}
	term.Print(q.p, term.Wrap(c.facts(time.Now()), q.width))
	if q.unsure != nil {
		q.p.Printf("%s\n", q.p.Paint(core.Yellow, "its digest cannot be checked: "+q.unsure.Error()))
	}
}

// ShowCard prints an open approval as a terminal shows it to whoever only looks on.
func ShowCard(p *core.Printer, ap protocol.Approval, d protocol.SessionDetail) {
	width, height := core.TerminalSize(p.W)
	q := &asking{p: p, ap: ap, at: placeOf(d), width: width - 1, rows: max(height-14, 8)}
	q.more = fmt.Sprintf("`ctl approval show %s` has them", ap.ID)
	q.show()
}

// placeFor asks where a session works. Without an answer, paths are shown whole.
func placeFor(ctx context.Context, t *conn.Conn, session string) place {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var d protocol.SessionDetail
	if _, err := t.AskEither(ctx, "look at session "+session, protocol.SessionID(session), protocol.QueryDetail, &d); err != nil {
		return place{}
	}
	return placeOf(d)
}

// DecideInline asks at the terminal. again is true if the decision did not count and the
// approval is still open.
func DecideInline(ctx context.Context, a *core.App, t *conn.Conn, ap protocol.Approval) (again bool, err error) {
	ap, err = wholeAndChecked(ctx, a, t, "ask about approval "+ap.ID, ap)
	var open *unsure
	var refused *core.Error
	switch {
	case errors.As(err, &open):
	case errors.As(err, &refused) && refused.Code == core.ExitRefused:
		core.NewPrinter(a.Err, false).Printf("\n%s (%s)\n", refused.Message, refused.Hint)
		return false, nil
	case err != nil:
		return false, err
	}
	q := newAsking(ctx, a, t, ap)
	q.unsure, q.at = open, placeFor(ctx, t, ap.Session)
	a.DropTyped() // typed before the question was shown
	q.show()
	err = collected(a, q)
	var d protocol.Decide
	var g given
	if err == nil {
		d, g, err = q.decide()
	}
	if errors.Is(err, errElsewhere) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	d.Approval, d.Digest = ap.ID, ap.Digest
	err = sendInline(ctx, a, t, q.ap, d, g)
	var e *core.Error
	if errors.As(err, &e) && (e.Code == core.ExitRefused || e.Code == core.ExitUsage) {
		// Somebody decided first, or the key does not fit. Other approvals can still be
		// asked about.
		q.p.Printf("%s\n", core.Clean(e.Message))
		return decidedElsewhere(ctx, t, ap) == "", nil
	}
	return false, err
}

// strayFor is how long Enter may still be meant for an abandoned question.
const strayFor = 10 * time.Second

// collected asks for Enter, so that a line for an abandoned question does not answer the
// next.
func collected(a *core.App, q *asking) error {
	if a.Strayed.IsZero() || time.Since(a.Strayed) > strayFor {
		return nil
	}
	_, err := q.line("the earlier question was closed; press Enter to go to this one >", false)
	if err == nil {
		a.Strayed = time.Time{}
	}
	return err
}

func sendInline(ctx context.Context, a *core.App, t *conn.Conn, ap protocol.Approval, d protocol.Decide, g given) error {
	doing := d.Outcome + " approval " + ap.ID
	if d.Outcome == "answer" {
		if err := putAnswers(ctx, a, t, doing, ap, g, &d); err != nil {
			return err
		}
	}
	var err error
	if d.By, err = t.By(ctx, doing); err == nil {
		err = sign(ctx, a, t, doing, &ap, &d)
	}
	if err != nil {
		return err
	}
	msg := conn.Delivery{Doing: doing, Session: ap.Session, Name: protocol.SignalDecide, Msg: d, Again: true, Check: conn.Decidable(doing, d)}
	var got protocol.Approval
	kept, err := msg.Deliver(ctx, t.Conn, &got)
	if err == nil && !kept && got.State == protocol.ApprovalOpen { // more approvers must agree
		a.Note("%s", core.Clean(signedText(got)))
	}
	return err
}

// askRest asks for missing answers. word says if the person declines or cancels.
func askRest(ctx context.Context, a *core.App, t *conn.Conn, ap protocol.Approval, g *given) (word string, err error) {
	missing := slices.ContainsFunc(ap.Questions, func(q protocol.Question) bool { return !g.answered(q.ID) && !q.Optional && q.Default == "" })
	if !missing {
		return "", nil
	}
	q := newAsking(ctx, a, t, ap)
	for _, question := range ap.Questions {
		if g.answered(question.ID) {
			continue
		}
		word, err := q.question(question, g)
		if errors.Is(err, errElsewhere) {
			err = core.Refused("answer approval %s: it is no longer open", ap.ID)
		}
		if err != nil || word != "" {
			return word, err
		}
	}
	return "", nil
}

func (q *asking) offers(word string) bool { return slices.Contains(q.ap.Offered, word) }

// decide asks until the approval is decided. given is for the outcome "answer".
func (q *asking) decide() (d protocol.Decide, g given, err error) {
	for {
		if q.offers("answer") {
			d, g, err = q.answers()
		} else {
			d, err = q.choose()
		}
		if err != nil || q.unsure == nil || !approves(d.Outcome) {
			return d, g, err
		}
		if named, err := q.named(); named || err != nil {
			return d, g, err
		}
	}
}

// shortDigest is how much of a digest a person types.
const shortDigest = 8

// named asks for the digest of what is approved, because what is shown does not give it.
func (q *asking) named() (bool, error) {
	s, err := q.line(fmt.Sprintf("to approve it as it is shown, type the first %d characters of its digest; Enter goes back >", shortDigest), false)
	return err == nil && len(s) >= shortDigest && strings.HasPrefix(q.ap.Digest, strings.ToLower(s)), err
}

type key struct {
	letter, word, text string
	scope              string
	help               string
}

var keys = []key{
	{"y", "accept", "accept", "", "accept it once"},
	{"s", "grant", "give some of it", "", "accept some of the permissions, one by one"},
	{"e", "revise", "revise, with comments", "", "do not accept it yet, and say what is to be changed"},
	{"n", "decline", "decline", "", "decline it; the turn goes on"},
	{"a", "accept", "always this session", "session", "accept it, and the same request later in this session"},
	{"r", "amend", "accept and write the rule", "", "accept it, and write the rule: codex no longer asks for what matches it"},
	{"c", "cancel", "cancel turn", "", "decline it, and end the turn"},
}

// whyKey declines with a reason. It is one of the keys that the prompt leaves to ?.
var whyKey = key{letter: "x", help: "decline it and say why, for the record"}

func (q *asking) choose() (protocol.Decide, error) {
	var can []key
	var texts []string
	for _, k := range keys {
		word := k.word
		if k.scope != "" {
			word += "_for_session"
		}
		if q.offers(word) || word == "decline" {
			can = append(can, k)
			texts = append(texts, k.letter+" "+k.text)
		}
	}
	for {
		s, err := q.key(strings.Join(append(texts, "v page", "d digest and ids", "? help"), " · "))
		if err != nil {
			return protocol.Decide{}, err
		}
		c := card{q.ap, q.at}
		switch s {
		case "d":
			term.Print(q.p, term.Wrap(c.details(), q.width))
			continue
		case "v", "diff":
			if err := q.read(c); err != nil {
				return protocol.Decide{}, err
			}
			continue
		case "?", "help":
			q.help(can)
			continue
		case "x":
			why, err := q.line("why? It goes on record; Enter leaves it out >", false)
			return protocol.Decide{Outcome: "decline", Reason: why}, err
		case "enter", "":
			continue // the habit of ending with Enter
		}
		i := slices.IndexFunc(can, func(k key) bool {
			return s == k.letter || s == k.word && k.scope == "" || s == "yes" && k.letter == "y" || s == "no" && k.letter == "n" || s == "always" && k.letter == "a"
		})
		switch {
		case i < 0:
			q.p.Printf("one of %s\n", letters(can))
			continue
		case can[i].word == "grant", can[i].word == "revise":
			ask := q.some
			if can[i].word == "revise" {
				ask = q.revise
			}
			d, ok, err := ask()
			if err != nil || ok {
				return d, err
			}
			continue
		}
		return protocol.Decide{Outcome: can[i].word, Scope: can[i].scope}, nil
	}
}

// read shows all of the request.
func (q *asking) read(c card) error {
	if q.page == nil {
		term.Print(q.p, c.whole())
		return nil
	}
	return q.page(q.ap.ID, c.whole())
}

func (q *asking) help(can []key) {
	for _, k := range append(slices.Clone(can), whyKey, key{letter: "v", help: "read all of it, page by page"},
		key{letter: "d", help: "show ids, the digest and what that covers"}) {
		q.p.Printf("  %s  %s\n", q.p.Paint(core.Bold, k.letter), k.help)
	}
}

func letters(keys []key) string {
	var out []string
	for _, k := range keys {
		out = append(out, k.letter)
	}
	return strings.Join(append(out, "v", "d", "x", "?"), ", ")
}

func (q *asking) answers() (protocol.Decide, given, error) {
	g := given{questions: q.ap.Questions, plain: map[string][]string{}, secret: map[string][]string{}}
	for _, question := range q.ap.Questions {
		word, err := q.question(question, &g)
		if err != nil || word != "" {
			return protocol.Decide{Outcome: word}, g, err
		}
	}
	return protocol.Decide{Outcome: "answer"}, g, nil
}

// question repeats a question until the answer fits. word is as for askRest.
func (q *asking) question(question protocol.Question, g *given) (word string, err error) {
	showQuestion(q.p, question)
	for {
		s, err := q.line(q.how(question)+" >", question.Secret)
		if err != nil {
			return "", err
		}
		switch w := strings.TrimSpace(s); {
		case w == "/decline", w == "/cancel" && q.offers("cancel"):
			return w[1:], nil
		}
		answers := map[string][]string{}
		if s != "" {
			answers[question.ID] = chosen(question, s)
		}
		if _, err := activities.CheckAnswers([]protocol.Question{question}, answers); err != nil {
			q.p.Printf("%s\n", core.Clean(err.Error()))
			continue
		}
		to := g.plain
		if question.Secret {
			to = g.secret
		}
		if s != "" {
			to[question.ID] = answers[question.ID]
		}
		return "", nil
	}
}

func (q *asking) how(question protocol.Question) string {
	how := "answer"
	switch {
	case question.Secret:
		how = "answer (not shown)"
	case question.Many && len(question.Options) > 0:
		how = "numbers or names, with commas between them"
	case len(question.Options) > 0 && question.Other:
		how = "number, name, or your own words"
	case len(question.Options) > 0:
		how = "number or name"
	}
	if question.Default != "" {
		how += ", Enter for the default"
	} else if question.Optional {
		how += ", Enter to leave it out"
	}
	how += " · /decline"
	if q.offers("cancel") {
		how += " · /cancel"
	}
	return how
}

// chosen returns the options named, or the text.
func chosen(question protocol.Question, said string) []string {
	if !question.Many {
		return []string{choose(question, said)}
	}
	var out []string
	for part := range strings.SplitSeq(said, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, choose(question, part))
		}
	}
	return out
}

// some asks about each permission. ok is false if none is given.
func (q *asking) some() (d protocol.Decide, ok bool, err error) {
	singles, rest := apart(q.ap.Permissions)
	if rest > 0 {
		q.p.Printf("%s\n", q.p.Paint(core.Dim, "the patterns and places among them are given only with all of it"))
	}
	var part activities.Part
	for _, one := range singles {
		yes, err := q.yes(one.words)
		if err != nil {
			return d, false, err
		}
		if yes {
			one.give(&part)
		}
	}
	if !part.Network && len(part.Read)+len(part.Write) == 0 {
		q.p.Printf("nothing is given: n declines\n")
		return d, false, nil
	}
	d = protocol.Decide{Outcome: "grant"}
	if d.Grant, err = part.Of(q.ap.Permissions); err != nil {
		q.p.Printf("%s\n", core.Clean(err.Error()))
		return d, false, nil
	}
	if q.offers("accept_for_session") {
		yes, err := q.yes("for as long as codex's process runs, not only for this turn")
		if err != nil {
			return d, false, err
		}
		if yes {
			d.Scope = "session"
		}
	}
	return d, true, nil
}

func (q *asking) yes(what string) (bool, error) {
	for {
		s, err := q.yesOrNo(core.Clean(what) + "? [y/n]")
		if err != nil {
			return false, err
		}
		switch strings.ToLower(s) {
		case "y", "yes":
			return true, nil
		case "n", "no":
			return false, nil
		}
	}
}

func (q *asking) yesOrNo(prompt string) (string, error) {
	if q.press != nil {
		return q.press(prompt)
	}
	return q.line(prompt, false)
}

// A single is a permission that can be given alone.
type single struct {
	words string
	give  func(*activities.Part)
}

// apart splits permissions in codex's JSON. rest counts those that are given only with all
// others.
func apart(raw json.RawMessage) (out []single, rest int) {
	var p struct {
		Network    struct{ Enabled bool }
		FileSystem struct {
			Read, Write []string
			Entries     []struct {
				Access string
				Path   struct{ Type, Path string }
			}
		}
	}
	if json.Unmarshal(raw, &p) != nil {
		return nil, 1
	}
	if p.Network.Enabled {
		out = append(out, single{"use the network", func(to *activities.Part) { to.Network = true }})
	}
	add := func(access, path string) {
		words := access + " " + path
		if slices.ContainsFunc(out, func(s single) bool { return s.words == words }) {
			return
		}
		out = append(out, single{words, func(to *activities.Part) {
			if access == "read" {
				to.Read = append(to.Read, path)
			} else {
				to.Write = append(to.Write, path)
			}
		}})
	}
	for _, path := range p.FileSystem.Read {
		add("read", path)
	}
	for _, path := range p.FileSystem.Write {
		add("write", path)
	}
	for _, e := range p.FileSystem.Entries {
		switch {
		case e.Access != "read" && e.Access != "write":
		case e.Path.Type == "path":
			add(e.Access, e.Path.Path)
		default:
			rest++
		}
	}
	return out, rest
}
