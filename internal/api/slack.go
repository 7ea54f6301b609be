package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/audit"
)

// Slack keeps which account of Slack decides for whom. An empty principal is the owner of the
// stack.
type Slack interface {
	// NewCode gives a code by which one account is linked to a principal.
	NewCode(ctx context.Context, principal string) (code string, until time.Time, err error)
	Accounts(ctx context.Context, principal string) ([]SlackAccount, error)
	// Unlink ends the link of an account. It reports whether the account was the principal's.
	Unlink(ctx context.Context, principal, account string) (bool, error)
}

// ErrManyCodes says that a principal has too many codes which nobody has used.
var ErrManyCodes = errors.New("you have many codes that nobody has used")

// A SlackCode links the account that sends it to the app.
type SlackCode struct {
	Code      string    `json:"code"`
	ExpiresAt time.Time `json:"expires_at"`
}

// A SlackAccount is linked to a principal.
type SlackAccount struct {
	Account  string    `json:"account"` // id of the workspace, and of the member
	LinkedAt time.Time `json:"linked_at"`
}

// hasSlack refuses where nobody decides in Slack, and programs, which have no account there.
func hasSlack(s *Server, c *caller) error {
	if s.opts.Slack == nil {
		return problem(http.StatusConflict, ErrRefused, "nobody decides in Slack here: this worker has no notification rules").
			hinted("set notifications in its config, to rules that have a channel of kind slack with decide: true")
	}
	if _, program := access.TokenName(principalOf(c)); program {
		return problem(http.StatusForbidden, ErrForbidden, "an account of Slack is linked to a person, and an API token is a program's")
	}
	return nil
}

// principalOf returns whom a request is from; nobody is the owner of the stack.
func principalOf(c *caller) string {
	if c == nil {
		return ""
	}
	return c.principal
}

func slackCode(s *Server, w http.ResponseWriter, r *http.Request) {
	c := callerOf(r.Context())
	err := hasSlack(s, c)
	var out SlackCode
	if err == nil {
		out.Code, out.ExpiresAt, err = s.opts.Slack.NewCode(r.Context(), principalOf(c))
		switch {
		case errors.Is(err, ErrManyCodes):
			err = problem(http.StatusConflict, ErrRefused, "%v", err).hinted("use one, or try again in 10 minutes")
		case err != nil:
			err = storeProblem(err, "%v", err)
		}
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	s.reply(w, out)
}

func slackAccounts(s *Server, w http.ResponseWriter, r *http.Request) {
	c := callerOf(r.Context())
	err := hasSlack(s, c)
	var all []SlackAccount
	if err == nil {
		if all, err = s.opts.Slack.Accounts(r.Context(), principalOf(c)); err != nil {
			err = storeProblem(err, "%v", err)
		}
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	s.reply(w, map[string]any{"accounts": all})
}

func unlinkSlack(s *Server, w http.ResponseWriter, r *http.Request) {
	c := callerOf(r.Context())
	account := r.PathValue("team") + "/" + r.PathValue("user")
	err := hasSlack(s, c)
	if err == nil {
		was, uerr := s.opts.Slack.Unlink(r.Context(), principalOf(c), account)
		switch {
		case uerr != nil:
			err = storeProblem(uerr, "%v", uerr)
		case !was:
			err = problem(http.StatusNotFound, ErrNotFound, "account %.100q is not linked to you", account).hinted("`ctl notify link --list` shows yours")
		}
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	accepted(&s.opts, c, audit.SlackUnlink, account, "as they asked")
	s.reply(w, SlackAccount{Account: account})
}

// Did records what a person did by Slack or, with err, that it was refused. Nobody is somebody
// who is not known.
func (i Insider) Did(p Person, verb, object, reason string, err error) {
	var c *caller
	if p.Principal != "" {
		c = &caller{principal: p.Principal}
	}
	if err == nil {
		accepted(&i.s.opts, c, verb, object, reason)
		return
	}
	if reason != "" {
		reason += ": "
	}
	refusedFor(&i.s.opts, c, verb, object, problem(http.StatusForbidden, ErrForbidden, "%s%v", reason, err))
}

const slackPath = "/v1/slack/"

// SlackCode asks for a code by which the caller links an account of Slack.
func (c *Client) SlackCode(ctx context.Context) (out SlackCode, err error) {
	return out, c.call(ctx, http.MethodPost, slackPath+"codes", []byte("{}"), &out)
}

// SlackAccounts lists the accounts that are linked to the caller.
func (c *Client) SlackAccounts(ctx context.Context) ([]SlackAccount, error) {
	var v struct {
		Accounts []SlackAccount `json:"accounts"`
	}
	err := c.call(ctx, http.MethodGet, slackPath+"accounts", nil, &v)
	return v.Accounts, err
}

// UnlinkSlack ends the link of an account of the caller's. team and user are its two parts.
func (c *Client) UnlinkSlack(ctx context.Context, team, user string) (out SlackAccount, err error) {
	return out, c.call(ctx, http.MethodDelete, slackPath+"accounts/"+team+"/"+user, nil, &out)
}
