package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/slack-go/slack"

	"fairlead.dev/fairlead/internal/escape"
	"fairlead.dev/fairlead/internal/protocol"
)

// A Card is a message in Slack with buttons that decide an approval.
type Card struct {
	Channel  string `json:"channel"` // of the rules
	Chat     string `json:"chat"`    // where Slack has the message
	TS       string `json:"ts"`      // its name there
	Approval string `json:"approval"`
	Session  string `json:"session"`
	Digest   string `json:"digest"` // of what it shows
	// Blocks are those of the message without its buttons.
	Blocks json.RawMessage `json:"blocks"`
}

// The actions of a card's buttons.
const (
	CardOpen    = "fairlead_open" // a link to the console
	CardAccept  = "fairlead_accept"
	CardDecline = "fairlead_decline"
	CardReason  = "fairlead_reason" // it asks for the reason of a decline
)

// A CardValue is the value of a button: what a click on it is about.
type CardValue struct {
	Approval string `json:"a"`
	Digest   string `json:"d"`
}

// maxShown bounds the texts of an approval that can be accepted in Slack, in bytes. Slack cuts
// longer ones.
const maxShown = 2500

// blocks returns the form of a message with buttons. decides says that one of them decides an
// approval. A message of several events has no form: its text has the address of the inbox.
func (c channel) blocks(m Message) (blocks []slack.Block, decides bool) {
	if len(m.Events) != 1 {
		return nil, false
	}
	e := m.Events[0]
	text := line(e)
	ask := e.Ask
	if !c.Decide || ask != nil && (ask.State != protocol.ApprovalOpen || ask.ID != e.Approval) {
		ask = nil
	}
	whole := ask != nil && ShownWhole(*ask)
	if e.Summary != "" && !whole {
		text += "\n" + plain(e.Summary, maxSummary)
	}
	blocks = append(blocks, slack.NewSectionBlock(words(text), nil, nil))
	if whole {
		blocks = append(blocks, shown(*ask)...)
	}
	var buttons []slack.BlockElement
	if strings.HasPrefix(e.Link, "https://") || strings.HasPrefix(e.Link, "http://") {
		open := slack.NewButtonBlockElement(CardOpen, "", words("Open"))
		open.URL = e.Link
		buttons = append(buttons, open)
	}
	if ask != nil && !ask.Signed {
		value, err := json.Marshal(CardValue{ask.ID, ask.Digest})
		add := func(action, text string, style slack.Style) {
			b := slack.NewButtonBlockElement(action, string(value), words(text))
			b.Style = style
			buttons, decides = append(buttons, b), true
		}
		risky := ask.Ruling != nil && ask.Ruling.Risk != "" // Slack does not ask for a passkey
		if err == nil && whole && !risky && slices.Contains(ask.Offered, string(protocol.Accept)) {
			add(CardAccept, "Accept", slack.StylePrimary)
		}
		if err == nil && slices.Contains(ask.Offered, string(protocol.Decline)) {
			add(CardDecline, "Decline", slack.StyleDanger)
			add(CardReason, "Decline with a reason…", "")
		}
	}
	if len(buttons) == 0 {
		return nil, false // its text says all there is
	}
	return append(blocks, slack.NewActionBlock("fairlead", buttons...)), decides
}

// ShownWhole reports whether a card shows all that a yes would do, so that people can accept it in
// Slack: a command and its folder, and nothing else that the digest covers, without hidden
// characters. The amendment of a command may be left out, because accept does not write it.
func ShownWhole(ap protocol.Approval) bool {
	r := ap.Request()
	if ap.Kind != string(protocol.KindCommand) || ap.Truncated || r.CheckDigest() != nil || ap.Command == "" || len(ap.Command) > maxShown || len(ap.CWD) > maxShown {
		return false
	}
	c, ok := r.Content()
	if !ok || escape.Text(ap.Command) != ap.Command || escape.Text(ap.CWD) != ap.CWD {
		return false
	}
	rest := protocol.Content{Kind: c.Kind, Command: c.Command, CWD: c.CWD, Amendment: c.Amendment}
	return rest.Digest() == ap.Digest
}

// shown are the blocks with all that is accepted. Rich text has no markup that a command could
// use.
func shown(ap protocol.Approval) []slack.Block {
	section := func(text string) slack.RichTextElement {
		return slack.NewRichTextSection(slack.NewRichTextSectionTextElement(text, nil))
	}
	elements := []slack.RichTextElement{
		&slack.RichTextPreformatted{Type: slack.RTEPreformatted, Elements: []slack.RichTextSectionElement{slack.NewRichTextSectionTextElement(ap.Command, nil)}},
		section(fmt.Sprintf("in %s\ndigest %s", ap.CWD, ap.Digest)),
	}
	if ap.Reason != "" {
		elements = append(elements, section("The model claims: "+plain(ap.Reason, maxSummary)))
	}
	if ap.Ruling != nil {
		elements = append(elements, section("Asked by rule "+plain(ap.Ruling.Rule, 120)))
	}
	return []slack.Block{slack.NewRichTextBlock("", elements...)}
}

// words is a text without markup, as long as Slack takes it.
func words(text string) *slack.TextBlockObject {
	const most = 2900
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return slack.NewTextBlockObject(slack.PlainTextType, text, false, false)
}

func withoutButtons(blocks []slack.Block) json.RawMessage {
	kept := slices.DeleteFunc(slices.Clone(blocks), func(b slack.Block) bool { return b.BlockType() == slack.MBTAction })
	raw, err := json.Marshal(kept)
	if err != nil {
		return nil
	}
	return raw
}

// Settled returns the blocks of a card whose approval waits no more, and what became of it.
func (c Card) Settled(outcome string) []slack.Block {
	var kept slack.Blocks
	if json.Unmarshal(c.Blocks, &kept) != nil {
		kept.BlockSet = nil
	}
	return append(kept.BlockSet, slack.NewSectionBlock(words(outcome), nil, nil))
}

// A SlackApp is an app by which people decide approvals. Its tokens are as they were when it was
// read.
type SlackApp struct {
	Channel  string // of the rules
	API      string
	Bot, App string
	rules    *Rules
	of       channel
}

// SlackApps returns the apps of the channels with decide: one for each token of an app. It also
// returns why others cannot be used, without any secret.
func (r *Rules) SlackApps() (apps []SlackApp, problems []error) {
	for name, c := range r.file.Channels {
		if c.Kind != Slack || !c.Decide {
			continue
		}
		a := SlackApp{Channel: name, API: c.API, rules: r, of: c}
		var err error
		a.Bot, err = r.secret(c.TokenFile)
		if err == nil {
			a.App, err = r.secret(c.AppTokenFile)
		}
		if err == nil && !strings.HasPrefix(a.App, "xapp-") {
			err = errors.New("app_token_file has no token of an app (xapp-…)")
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("channel %s: %w", name, err))
			continue
		}
		apps = append(apps, a)
	}
	slices.SortFunc(apps, func(a, b SlackApp) int { return strings.Compare(a.Channel, b.Channel) })
	return apps, problems
}

// Client returns a client of the Web API that the guard watches.
func (a SlackApp) Client() *slack.Client {
	return slack.New(a.Bot, append(a.of.options(a.rules.client()), slack.OptionAppLevelToken(a.App))...)
}

// Dial dials an address if the guard allows it.
func (a SlackApp) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return a.rules.dialer().DialContext(ctx, network, address)
}

// Rules returns the digest of the rules that the app is from.
func (a SlackApp) Rules() string { return a.rules.Digest }
