package slackapp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/escape"
	"fairlead.dev/fairlead/internal/notify"
	"fairlead.dev/fairlead/internal/protocol"
)

const (
	// reasonForm is the callback id of the form for a reason, reasonField that of its text.
	reasonForm  = "fairlead_reason_form"
	reasonField = "fairlead_reason_text"
	// mostTyped bounds what the form takes, in characters, and maxReason the reason, in bytes: with
	// what stands before it, a session takes it.
	mostTyped = 1000
	maxReason = 1800
	maxValue  = 2000
	// tellWait bounds what is done after a click, even if the click took all its time.
	tellWait = 10 * time.Second
)

// inSlack begins the reason of each decision that is made in Slack. The account follows.
const inSlack = "decided in Slack by "

var digestPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

const notLinked = "This Slack account is not linked to anybody, so nothing was decided. Run `ctl notify link`, and send the app the code that it prints: /fairlead link CODE"

// A place is where an answer to a click goes.
type place struct {
	Channel string `json:"c"` // of the rules
	Chat    string `json:"h"`
	TS      string `json:"t"`
	// API is the server of the connection. A form does not carry it, because servers send forms.
	API string `json:"-"`
}

// A reasonAsked is what the form for a reason carries.
type reasonAsked struct {
	notify.CardValue
	place
}

// clicked does what a click says. It returns what Slack is to do with a form, if that has to be
// filled in again.
func (a *App) clicked(ctx context.Context, client *slack.Client, channel, api string, cb slack.InteractionCallback) (again any) {
	switch cb.Type {
	case slack.InteractionTypeBlockActions:
		for _, act := range cb.ActionCallback.BlockActions {
			at := place{channel, cb.Container.ChannelID, cb.Container.MessageTs, api}
			switch act.ActionID {
			case notify.CardAccept, notify.CardDecline, notify.CardReason:
				a.press(ctx, client, cb, at, act.ActionID, act.Value)
			}
		}
	case slack.InteractionTypeViewSubmission:
		if cb.View.CallbackID != reasonForm {
			return nil
		}
		var asked reasonAsked
		if json.Unmarshal([]byte(cb.View.PrivateMetadata), &asked) != nil {
			return nil
		}
		asked.API = api
		reason := ""
		if cb.View.State != nil {
			reason = strings.TrimSpace(cb.View.State.Values[reasonField][reasonField].Value)
		}
		if n := len(reason); n > maxReason {
			return map[string]any{"response_action": "errors", "errors": map[string]string{reasonField: fmt.Sprintf("This is too long: leave out about %d %% of it.", 100-100*maxReason/n)}}
		}
		a.decide(ctx, client, cb, asked.place, asked.CardValue, protocol.Decline, reason)
	}
	return nil
}

// chatOf returns where a click was made. A form carries it.
func chatOf(cb slack.InteractionCallback) string {
	if cb.Type != slack.InteractionTypeViewSubmission {
		return cb.Container.ChannelID
	}
	var asked reasonAsked
	_ = json.Unmarshal([]byte(cb.View.PrivateMetadata), &asked) // without one, there is nowhere to answer
	return asked.Chat
}

// press handles a button that decides.
func (a *App) press(ctx context.Context, client *slack.Client, cb slack.InteractionCallback, at place, action, value string) {
	var v notify.CardValue
	if len(value) > maxValue || json.Unmarshal([]byte(value), &v) != nil {
		return
	}
	switch action {
	case notify.CardAccept:
		a.decide(ctx, client, cb, at, v, protocol.Accept, "")
	case notify.CardDecline:
		a.decide(ctx, client, cb, at, v, protocol.Decline, "")
	case notify.CardReason:
		if err := a.askReason(ctx, client, cb.TriggerID, reasonAsked{v, at}); err != nil {
			a.log.Warn("Slack did not open the form for a reason", "err", err)
			a.whisper(ctx, client, at.Chat, cb.User.ID, "The form could not be opened, so nothing was decided. Click again.")
		}
	}
}

func (a *App) askReason(ctx context.Context, client *slack.Client, trigger string, asked reasonAsked) error {
	meta, err := json.Marshal(asked)
	if err != nil {
		return err
	}
	text := func(s string) *slack.TextBlockObject {
		return slack.NewTextBlockObject(slack.PlainTextType, s, false, false)
	}
	in := slack.NewPlainTextInputBlockElement(nil, reasonField)
	in.Multiline, in.MaxLength = true, mostTyped
	_, err = client.OpenViewContext(ctx, trigger, slack.ModalViewRequest{
		Type: slack.VTModal, CallbackID: reasonForm, PrivateMetadata: string(meta), Title: text("Decline"), Submit: text("Decline"), Close: text("Back"),
		Blocks: slack.Blocks{BlockSet: []slack.Block{slack.NewInputBlock(reasonField, text("Why? It goes on record, and to the model where codex passes it on."), nil, in)}},
	})
	return err
}

// who returns for whom an account counts. Of what Slack says, only ids count. Somebody of another
// workspace, in a channel that workspaces share, is nobody.
//
// Without anybody, no says to the person why, and why says it for the record.
func (a *App) who(ctx context.Context, server string, cb slack.InteractionCallback) (of account, p api.Person, no string, why error) {
	of = account{server, cb.Team.ID, cb.User.ID}
	if cb.User.TeamID != "" && cb.User.TeamID != cb.Team.ID {
		return of, p, notLinked, fmt.Errorf("the account is of workspace %.30q, which only shares the channel", cb.User.TeamID)
	}
	k, linked, err := a.links.find(ctx, of)
	switch {
	case err != nil:
		a.log.Error("links of Slack accounts cannot be read", "err", err)
		return of, p, "The links of Slack accounts cannot be read now, so nothing was decided. Try again in a moment.", errors.New("the links of accounts cannot be read now")
	case !linked:
		return of, p, notLinked, errors.New("the account is not linked")
	}
	return of, a.person(of, k), "", nil
}

// person is somebody as long as their account is linked.
func (a *App) person(of account, k link) api.Person {
	return api.Person{Principal: k.Principal, Holds: func() string {
		if now, linked, err := a.links.find(context.Background(), of); err == nil && (!linked || now.Principal != k.Principal) {
			return "this Slack account is not linked any more"
		}
		return ""
	}}
}

// decide makes the decision of a click, and shows in Slack what came of it.
func (a *App) decide(ctx context.Context, client *slack.Client, cb slack.InteractionCallback, at place, v notify.CardValue, outcome protocol.Outcome, reason string) {
	session, _, is := protocol.CutApproval(v.Approval)
	if !is || !digestPattern.MatchString(v.Digest) {
		return
	}
	of, who, no, whyNot := a.who(ctx, at.API, cb)
	var ap protocol.Approval
	err := whyNot
	if whyNot == nil {
		why := inSlack + of.String()
		if reason != "" {
			why += ": " + reason
		}
		key := "slack-" + hash("click", of.digest(), v.Approval, v.Digest, string(outcome), why)
		err = a.ask(ctx, who, http.MethodPost, "/v1/approvals/"+url.PathEscape(v.Approval)+"/decision", key, map[string]string{"digest": v.Digest, "outcome": string(outcome), "reason": why}, &ap)
	}
	late := ctx.Err() != nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellWait+askCard)
	defer cancel()
	said := fmt.Sprintf("%s by Slack account %s, digest %s", outcome, of, v.Digest)
	var refused *refusal
	switch {
	case whyNot != nil:
		a.log.Warn("a click in Slack does not count", "account", of.String(), "approval", v.Approval, "why", whyNot)
		a.api.Did(api.Person{}, audit.SlackDecide, v.Approval, said, whyNot)
		a.whisper(ctx, client, at.Chat, cb.User.ID, no)
	case err == nil:
		a.api.Did(who, audit.SlackDecide, v.Approval, said, nil)
		a.taken(ctx, client, cb, at, ap, v.Digest)
	case late || !errors.As(err, &refused) || refused.Status >= http.StatusInternalServerError:
		// It may have come to the session, so the record does not say that it was refused. If it
		// came, the session's own record has it.
		a.log.Error("it is not known whether a click in Slack was recorded", "account", of.String(), "principal", who.Principal, "approval", v.Approval, "session", session, "err", err)
		a.whisper(ctx, client, at.Chat, cb.User.ID, "It is not known whether this was recorded. Click again: the same click counts once. What failed: "+escape.OneLine(err.Error(), 500))
	default:
		a.log.Warn("a click in Slack was refused", "account", of.String(), "principal", who.Principal, "approval", v.Approval, "err", err)
		a.api.Did(who, audit.SlackDecide, v.Approval, said, refused)
		text := "This was not recorded: " + refused.Error()
		actx, cancel := context.WithTimeout(ctx, askCard)
		now, err := a.approval(actx, who, v.Approval)
		cancel()
		if err == nil && !waits(now, v.Digest) {
			text += "\n" + became(now, v.Digest)
			a.settle(ctx, client, cb, at, now, v.Digest)
		}
		a.whisper(ctx, client, at.Chat, cb.User.ID, text)
	}
}

// waits reports whether an approval still waits for a decision on what a card shows.
func waits(ap protocol.Approval, digest string) bool {
	return ap.Digest == digest && (ap.State == protocol.ApprovalOpen || ap.State == protocol.ApprovalUnjudged)
}

// taken shows what came of a decision that was taken. Temporal keeps one that no worker of the
// session has judged: it may come to nothing, so the buttons stay.
func (a *App) taken(ctx context.Context, client *slack.Client, cb slack.InteractionCallback, at place, ap protocol.Approval, digest string) {
	actx, cancel := context.WithTimeout(ctx, askCard)
	all, err := a.opts.Asks(actx, ap.Session)
	cancel()
	now := ap
	if i := slices.IndexFunc(all, func(x protocol.Approval) bool { return x.ID == ap.ID }); err == nil && i >= 0 {
		now = all[i]
	}
	switch {
	case err == nil && !waits(now, digest), errkind.ExitCode(err) == errkind.ExitNotFound && !waits(ap, digest):
		a.settle(ctx, client, cb, at, now, digest)
	case err == nil && waits(ap, digest) && ap.Missing > 0:
		a.whisper(ctx, client, at.Chat, cb.User.ID, became(ap, digest))
	default:
		a.whisper(ctx, client, at.Chat, cb.User.ID, "This was sent. It counts when a worker of the session judges it, and until then the buttons stay.")
	}
}

// settle takes the buttons of a card away at once. What does not succeed here is left to strip.
func (a *App) settle(ctx context.Context, client *slack.Client, cb slack.InteractionCallback, at place, ap protocol.Approval, digest string) {
	if at.Chat == "" || at.TS == "" {
		return
	}
	card, kept := a.cardAt(ctx, at)
	if !kept {
		card = notify.Card{Channel: at.Channel, Chat: at.Chat, TS: at.TS, Approval: ap.ID, Session: ap.Session, Digest: digest}
		left := slack.Blocks{}
		for _, b := range cb.Message.Blocks.BlockSet {
			if b.BlockType() != slack.MBTAction {
				left.BlockSet = append(left.BlockSet, b)
			}
		}
		raw, err := json.Marshal(left)
		if err != nil || len(left.BlockSet) == 0 {
			return // what was decided must stay in the message
		}
		card.Blocks = raw
	}
	uctx, cancel := context.WithTimeout(ctx, tellWait)
	defer cancel()
	if err := update(uctx, client, card, became(ap, digest)); err != nil {
		a.log.Warn("Slack keeps the buttons of a decided approval for now", "approval", ap.ID, "err", err)
		return
	}
	a.cards.forget(ctx, card)
}

// became says what became of an approval.
func became(ap protocol.Approval, digest string) string {
	switch {
	case ap.Digest != digest:
		return "The request has changed since: open it and look again."
	case ap.State == protocol.ApprovalOpen && ap.Missing > 0:
		return fmt.Sprintf("Recorded; %d more must agree.", ap.Missing)
	case ap.State == protocol.ApprovalOpen:
		return "It still waits for a decision."
	case ap.Decision != nil:
		text := fmt.Sprintf("%s by %s, %s", past(ap.Decision.Outcome), escape.OneLine(ap.Decision.By, 120), ap.Decision.At.UTC().Format("2006-01-02 15:04:05 MST"))
		if ap.Decision.Reason != "" {
			text += ": " + escape.OneLine(ap.Decision.Reason, 300)
		}
		return text
	case ap.VoidReason != "":
		return "It can no longer be decided: " + escape.OneLine(ap.VoidReason, 300)
	}
	return "It is " + string(ap.State) + "."
}

func past(outcome string) string {
	switch protocol.Outcome(outcome) {
	case protocol.Accept:
		return "Accepted"
	case protocol.Decline:
		return "Declined"
	case protocol.Cancel:
		return "Cancelled"
	}
	return "Decided (" + escape.OneLine(outcome, 40) + ")"
}

// whisper tells one person something that nobody else sees.
func (a *App) whisper(ctx context.Context, client *slack.Client, chat, user, text string) {
	if chat == "" || user == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tellWait)
	defer cancel()
	if _, err := client.PostEphemeralContext(ctx, chat, user, slack.MsgOptionText(text, true)); err != nil {
		a.log.Warn("Slack did not show an answer to a click", "err", err)
	}
}

// commanded answers the command /fairlead.
func (a *App) commanded(ctx context.Context, server string, cmd slack.SlashCommand) string {
	const help = "Send `/fairlead link CODE` with the code that `ctl notify link` prints, or `/fairlead unlink`."
	of := account{server, cmd.TeamID, cmd.UserID}
	words := strings.Fields(cut(cmd.Text, 200))
	switch {
	case len(words) == 2 && words[0] == "link":
		k, was, err := a.links.redeem(ctx, words[1], of)
		switch {
		case errors.Is(err, errCode), errors.Is(err, errAccounts):
			a.api.Did(api.Person{}, audit.SlackLink, of.String(), "", err)
			return "Nothing was linked: " + err.Error()
		case err != nil:
			a.log.Error("a Slack account could not be linked", "account", of.String(), "err", err)
			return "Nothing was linked: the store does not answer. Ask for another code and try again."
		}
		a.log.Info("slack account linked", "account", of.String(), "principal", k.Principal)
		if was != nil && was.Principal != k.Principal {
			a.api.Did(api.Person{Principal: was.Principal}, audit.SlackUnlink, of.String(), "the account was linked to somebody else", nil)
		}
		a.api.Did(api.Person{Principal: k.Principal}, audit.SlackLink, of.String(), "a code of theirs came from this account", nil)
		return "This account decides for " + named(k.Principal) + " now."
	case len(words) == 1 && words[0] == "unlink":
		k, linked, err := a.links.find(ctx, of)
		if err == nil && linked {
			err = a.links.remove(ctx, k)
		}
		switch {
		case err != nil:
			a.log.Error("a Slack account could not be unlinked", "account", of.String(), "err", err)
			return "The store does not answer. Try again in a moment."
		case !linked:
			return "This account is not linked."
		}
		a.api.Did(api.Person{Principal: k.Principal}, audit.SlackUnlink, of.String(), "from this account", nil)
		return "This account decides for nobody now."
	}
	return help
}

func named(principal string) string {
	if principal == "" {
		return "the owner of this stack"
	}
	return escape.OneLine(principal, 200)
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}
