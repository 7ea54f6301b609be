package flows

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	temporalsdk "go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
)

// OutOfTime reports whether a wait ended because its own time was over. The connection may
// report the deadline just before the context does; then OutOfTime waits for the context.
func OutOfTime(ctx context.Context, err error) bool {
	if err == nil {
		return false
	}
	var wire *serviceerror.DeadlineExceeded
	if end, ok := ctx.Deadline(); ok && time.Until(end) < time.Second && (errors.As(err, &wire) || errors.Is(err, context.DeadlineExceeded)) {
		<-ctx.Done()
	}
	return errors.Is(ctx.Err(), context.DeadlineExceeded)
}

// Explain converts an error of Temporal into one of ctl, with exit code and hint.
func (t *Conn) Explain(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(context.Cause(ctx), errkind.ErrInterrupted) {
		return err
	}
	if e := refusal(t.Codec, err); e != nil {
		e.Message = doing + ": " + unsaid(doing, e.Message)
		return e.Because(err)
	}
	var (
		gone      *serviceerror.NotFound
		noNS      *serviceerror.NamespaceNotFound
		started   *serviceerror.WorkflowExecutionAlreadyStarted
		queryFail *serviceerror.QueryFailed
		unready   *serviceerror.WorkflowNotReady
		precond   *serviceerror.FailedPrecondition
		badArg    *serviceerror.InvalidArgument
		busy      *serviceerror.ResourceExhausted
		denied    *serviceerror.PermissionDenied
		deadline  *serviceerror.DeadlineExceeded
		canceled  *serviceerror.Canceled
		silent    *client.WorkflowUpdateServiceTimeoutOrCanceledError
	)
	switch {
	case errors.Is(err, payload.ErrNoKey), errors.Is(err, payload.ErrTorn):
		return errkind.Usage("%s: %s", doing, FirstSentence(err)).Hinted("check temporal.payload_key in the config, and --namespace").Because(err)
	case errors.Is(err, payload.ErrOlder), errors.Is(err, payload.ErrMoved):
		return errkind.Refused("%s: %s", doing, FirstSentence(err)).Because(err)
	case errors.As(err, &noNS):
		return errkind.NotFound("%s: Temporal at %s has no namespace %q", doing, t.Address, t.Namespace).Hinted("check --namespace").Because(err)
	case errors.As(err, &gone):
		// This is also the error for a workflow that has ended.
		if strings.Contains(gone.Error(), "already completed") {
			return errkind.Refused("%s: it has ended", doing).Because(err)
		}
		return errkind.NotFound("%s: it does not exist", doing).Hinted("%s", whatThereIs(doing)).Because(err)
	case errors.As(err, &started) || temporalsdk.IsWorkflowExecutionAlreadyStartedError(err):
		return errkind.Refused("%s: the id is in use", doing).Hinted("choose another id").Because(err)
	case errors.As(err, &silent), errors.As(err, &deadline), errors.As(err, &canceled), errors.As(err, &precond), errors.As(err, &unready),
		errors.Is(err, context.DeadlineExceeded):
		return errkind.Unreachable("%s: no worker answered within %s", doing, t.Side.Wait(AnswerWait)).
			Hinted("is a worker running? `ctl status` shows them; if you asked for a change, check before you repeat it").Because(err)
	case errors.As(err, &queryFail), errors.As(err, &badArg):
		return errkind.Failed("%s: %s", doing, FirstSentence(err)).Because(err)
	case errors.As(err, &busy):
		return errkind.Unreachable("%s: Temporal is overloaded: %s", doing, FirstSentence(err)).Hinted("try again in a moment").Because(err)
	case errors.As(err, &denied):
		return errkind.Unreachable("%s: Temporal refused us: %s", doing, FirstSentence(err)).Hinted("check the key or certificate").Because(err)
	}
	var unavailable *serviceerror.Unavailable
	if errors.As(err, &unavailable) {
		return errkind.Unreachable("%s: Temporal at %s went away: %s", doing, t.Address, FirstSentence(err)).
			Hinted("if you asked for a change, check before you repeat it").Because(err)
	}
	return errkind.Failed("%s: %s", doing, FirstSentence(err)).Because(err)
}

// unsaid shortens a workflow's message "decide s1.2: it expired" to "it expired" if ctl was
// doing "accept approval s1.2", because ctl names the operation itself. Both must end with
// the same object.
func unsaid(doing, message string) string {
	head, rest, ok := strings.Cut(message, ": ")
	if words, of := strings.Fields(head), strings.Fields(doing); ok && len(of) > 0 && len(words) > 1 && len(words) < 4 && words[len(words)-1] == of[len(of)-1] {
		return rest
	}
	return message
}

// missing matches the part of a refusal that names a seed or host that does not exist.
// Other names in it do exist.
var missing = regexp.MustCompile(`\bno (?:jump )?(?:seed|host) `)

// whatThereIs hints how to list what was not found.
func whatThereIs(message string) string {
	last, at := "", -1 // the last noun names that kind
	for _, noun := range []string{"batch", "schedule", "session", "seed", "host"} {
		if i := strings.LastIndex(message, noun+" "); i > at {
			last, at = noun, i
		}
	}
	if last == "" {
		return ""
	}
	return "`ctl " + last + " list` shows what there is"
}

// refusal returns a workflow's typed refusal, or nil. For a failed query, it is in the
// failure that the server passes on.
func refusal(codec *payload.Codec, err error) *errkind.Error {
	kind, message := "", ""
	var app *temporalsdk.ApplicationError
	var query *serviceerror.QueryFailed
	switch {
	case errors.As(err, &app):
		kind, message = app.Type(), app.Message()
	case errors.As(err, &query):
		for f := query.Failure; f != nil && kind == ""; f = f.GetCause() {
			kind, message = f.GetApplicationFailureInfo().GetType(), codec.Message(f)
		}
	}
	switch kind {
	case protocol.RefusedBadInput:
		return errkind.Usage("%s", message)
	case protocol.RefusedNotFound:
		return errkind.NotFound("%s", message).Hinted("%s", whatThereIs(missing.FindString(message)))
	case protocol.RefusedState:
		return errkind.Refused("%s", message)
	case protocol.RefusedForbidden:
		return errkind.New(errkind.ExitRefused, protocol.RefusedForbidden, "%s", message).
			Hinted("`ctl whoami` says who you are, and `ctl access why` which roles are needed")
	case protocol.RefusedPasskey:
		return errkind.New(errkind.ExitRefused, errkind.PasskeyNeeded, "%s", message).
			Hinted("decide it in the console with your passkey, or with ctl and a FIDO key (--sign-with)")
	case protocol.RefusedBudget:
		return errkind.New(errkind.ExitRefused, protocol.RefusedBudget, "%s", message)
	}
	return nil
}

// FirstSentence returns an error on one line, without gRPC's layers.
func FirstSentence(err error) string {
	s := err.Error()
	if i := strings.LastIndex(s, "desc = "); i >= 0 {
		s = strings.Trim(s[i+len("desc = "):], `"`)
	}
	s = strings.TrimPrefix(s, "failed reaching server: ")
	s, _, _ = strings.Cut(s, "\n")
	return s
}
