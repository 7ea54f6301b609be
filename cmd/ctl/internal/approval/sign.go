package approval

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/signkey"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/policy"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/sshsig"
	"fairlead.dev/fairlead/workflows/session"
)

// If a policy names approvers, each signs with a key in a file or an SSH agent, and the
// session verifies.

// signing adds --sign-with and messageCommand.
func signing(a *core.App, approval *cobra.Command) *cobra.Command {
	for _, c := range approval.Commands() {
		if slices.Contains([]string{"accept", "decline", "cancel", "answer", "grant", "revise", "watch"}, c.Name()) {
			c.Flags().StringVar(&a.SignWith, "sign-with", "", "sign the decision with this private key: a `FILE`, agent, agent:SHA256:… for one of several, or login, the key of ctl login; if several keys fit, the one that the policy names is used (default: sign_with of the config, or else login with authority: required)")
		}
	}
	approval.AddCommand(messageCommand(a))
	return approval
}

// sign signs a decision if --sign-with or the session's policy asks for it.
func sign(ctx context.Context, a *core.App, t *conn.Conn, doing string, asked *protocol.Approval, d *protocol.Decide) error {
	with := a.SignWith
	conf, err := a.Config()
	if err != nil {
		return err
	}
	risky := asked != nil && asked.Ruling != nil && asked.Ruling.Risk == protocol.RiskHigh
	if with == "" && risky {
		with = conf.SignWith // which may be a FIDO key
	}
	if with == "" && asked != nil && asked.Signed {
		with = conf.SignWith
		if _, program := access.TokenName(d.By); with == "" && conf.Authority == config.AuthorityRequired && !program {
			with = config.LoginKey // as for commands
		}
	}
	if with == "" {
		return nil // the session refuses the decision if it needs one
	}
	if asked == nil {
		return core.Unreachable("%s: the signature covers the time of the request, which cannot be read now", doing).
			Hinted("do it again once a worker is up (`ctl status`)")
	}
	message, err := session.SignedMessage(asked.Session, asked.AskedAt, *d)
	if err != nil {
		return core.Usage("%s: %v", doing, err)
	}
	choice := sshsig.Choice{At: time.Now()}
	var untold error
	if choice.Allowed, untold = whoMaySign(ctx, t, asked); untold != nil {
		choice.Untold = true
	}
	var armored []byte
	key, err := signkey.Load(ctx, a, with, choice)
	if err == nil {
		armored, err = sshsig.Sign(key, sshsig.Namespace, message)
	}
	switch {
	case errors.Is(err, core.ErrInterrupted):
		return err
	case errors.Is(err, sshsig.ErrUntold):
		return core.Usage("%s: sign with %s: %v: %v", doing, with, err, untold).
			Hinted("name the certificate's file if the policy allows the certificate, or do it again once a worker is up (`ctl status`)").Because(err)
	case err != nil:
		return core.Usage("%s: sign with %s: %v", doing, with, err).Because(err)
	}
	d.Signature = string(armored)
	d.Touched = risky && !asked.Signed && conf.Authority == config.AuthorityRequired && sshsig.ByTouch(key.PublicKey())
	return nil
}

// whoMaySign returns the allowed signers, to choose among keys and certificates. Without a
// worker, the history has the policies; if that fails, the person must name the key.
func whoMaySign(ctx context.Context, t *conn.Conn, asked *protocol.Approval) (all []*sshsig.Allowed, err error) {
	if !asked.Signed {
		return nil, nil
	}
	var texts protocol.PolicyTexts
	if _, err := t.AskEither(ctx, "read the policy of session "+asked.Session, protocol.SessionID(asked.Session), protocol.QueryPolicy, &texts); err != nil {
		return nil, err
	}
	for _, text := range []string{texts.Session, texts.Seed} {
		if text == "" {
			continue
		}
		p, err := policy.Parse([]byte(text))
		if err != nil { // of a newer version
			return all, err
		}
		if p.Allowed() != nil {
			all = append(all, p.Allowed())
		}
	}
	return all, nil
}

// messageCommand prints the bytes to sign by hand.
func messageCommand(a *core.App) *cobra.Command {
	var forSession bool
	var answers, grant, digest string
	c := &cobra.Command{
		Use: "message ID OUTCOME", Short: "print the bytes to sign for a decision, to sign by hand", Args: cobra.ExactArgs(2),
		Long: `Prints the bytes that a decision is signed over, with no line's end: canonical JSON of the
session, the approval, when it was asked, its digest, the outcome, its scope and the SHA-256 of
the answers or the grant that go with it. ` + "`ctl approval … --sign-with`" + ` does all of this by itself.`,
		Example: `  ctl approval message release-42.1 accept | ssh-keygen -Y sign -n fairlead-decision@fairlead.dev -f ~/.ssh/id_ed25519 > sig
  temporal workflow signal -w session/release-42 --name decide --input "$(jq -n --rawfile s sig \
    '{approval:"release-42.1",digest:"…",outcome:"accept",signature:$s}')"`,
		RunE: func(c *cobra.Command, args []string) error {
			doing := "message of approval " + args[0]
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			ap, err := approval(c.Context(), t, doing, args[0])
			if err != nil {
				return err
			}
			d := protocol.Decide{Approval: ap.ID, Digest: digest, Outcome: args[1]}
			if err := digestOf(c.Context(), a, t, doing, &ap, &d); err != nil {
				return err
			}
			if forSession {
				d.Scope = "session"
			}
			for _, p := range []struct {
				flag, text string
				to         *json.RawMessage
			}{{"answers", answers, &d.Answers}, {"grant", grant, &d.Grant}} {
				if p.text != "" && !json.Valid([]byte(p.text)) {
					return core.Usage("%s: --%s is not JSON", doing, p.flag)
				}
				*p.to = bytes.TrimSpace([]byte(p.text))
			}
			message, err := session.SignedMessage(ap.Session, ap.AskedAt, d)
			if err != nil {
				return core.Usage("%s: %v", doing, err)
			}
			_, err = a.Out.Write(message)
			return err
		},
	}
	c.Flags().StringVar(&digest, "digest", "", "the `digest` that you approve; needed where what is shown does not give it")
	c.Flags().BoolVar(&forSession, "for-session", false, "the decision is for the session, as with --for-session of accept and grant")
	c.Flags().StringVar(&answers, "answers", "", "the answers of the decision, as `JSON`")
	c.Flags().StringVar(&grant, "grant", "", "the grant of the decision, as `JSON`")
	return c
}

// signedText says who signed and who must.
func signedText(ap protocol.Approval) string {
	if !ap.Signed {
		return ""
	}
	text := fmt.Sprintf("%d more of %s must sign the same (--sign-with)", ap.Missing, strings.Join(ap.Approvers, ", "))
	for _, g := range ap.Agreed {
		text += fmt.Sprintf("; %s: %s", g.By, g.Outcome)
		if g.Scope == "session" {
			text += " for the session"
		}
	}
	return text
}

func rulingText(ap protocol.Approval) string {
	if ap.Ruling == nil {
		return ""
	}
	text := "rule " + ap.Ruling.Rule
	if ap.Ruling.Reason != "" {
		text += ": " + ap.Ruling.Reason
	}
	return text
}
