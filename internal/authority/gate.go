package authority

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/payload"
)

// A Command is to be judged now.
type Command struct {
	command.Received // Judge sets Now
	Verb             access.Verb
	Object           access.Object
	More             []access.Object // which must be allowed, too
	Later            bool            // conditions are asked later, about what is known then
	// Lent are blobs of others that the command may name. The caller judges them.
	Lent []string
}

// A Verdict says whether a command counts. Its JSON is part of histories.
type Verdict struct {
	Principal string    `json:"principal,omitempty"` // who gave it, if that is known
	Groups    []string  `json:"groups,omitempty"`    // that the login of the principal named
	Refused   string    `json:"refused,omitempty"`   // why it does not count
	Nonce     string    `json:"nonce,omitempty"`
	Of        string    `json:"of,omitempty"` // digest of the command, if the caller set it
	At        time.Time `json:"at,omitzero"`
	Access    string    `json:"access,omitempty"` // digest of the file in force
	Binding   string    `json:"binding,omitempty"`
	User      string    `json:"user,omitempty"` // the worker's, if its commands are not signed
	// OnRecord says that the audit record of the command names Access. Verdicts that older code
	// recorded lack it, and a replay makes their records as they were.
	OnRecord bool `json:"on_record,omitempty"`
}

// JudgedBy returns the digest of the access file, for the audit record of an accepted command.
func (v Verdict) JudgedBy() string {
	if !v.OnRecord {
		return ""
	}
	return v.Access
}

// Judge says whether a command counts, by the clock of this machine. Workflow code records
// the verdict, or calls Judge in a validator.
func (k *Keeper) Judge(c Command) Verdict {
	a := k.Current()
	c.Now = k.now()
	v := Verdict{Access: a.Digest, OnRecord: true}
	signed, err := command.Check(c.Received, a)
	if err != nil {
		v.Refused = errors.Unwrap(err).Error() // callers name the command
		if errors.Is(err, command.ErrUnsigned) {
			v.Refused += ": this worker takes signed commands only; ctl signs with sign_with of its configuration, or after `ctl login`"
		}
		return v
	}
	v.Principal, v.Groups, v.Nonce, v.At = signed.Principal, signed.Groups, signed.Nonce, signed.At
	decide := k.decide
	if c.Later {
		decide = func(a *access.Access, r access.Request) access.Answer { return k.ofToken(a, r, a.Could, a.CouldToken) }
	}
	for _, o := range append([]access.Object{c.Object}, c.More...) {
		answer := decide(a, access.Request{Who: signed.Principal, Groups: signed.Groups, Verb: c.Verb, Object: o})
		if !answer.Allowed {
			v.Refused, v.Binding = answer.Reason, ""
			return v
		}
		v.Binding = cmp.Or(v.Binding, answer.Binding)
	}
	if key := foreign(signed.Args, signed.Principal, c.Lent); key != "" {
		v.Refused, v.Binding = fmt.Sprintf("it names %.200q, which %s did not upload: upload it again", key, signed.Principal), ""
	}
	if why := revokedApprover(c.Name, signed.Args, a); why != "" {
		v.Refused, v.Binding = notCounted+why, ""
	}
	if why := wrongPasskey(c.Name, signed.Args, signed.Principal, k.knownPasskeys(), a); why != "" && v.Refused == "" {
		v.Refused, v.Binding = why, ""
	}
	return v
}

// Decide says whether a principal may do something now.
func (k *Keeper) Decide(r access.Request) access.Answer { return k.decide(k.Current(), r) }

// Could says whether a principal may do something to an object that does not exist yet,
// whatever the conditions.
func (k *Keeper) Could(r access.Request) access.Answer {
	a := k.Current()
	return k.ofToken(a, r, a.Could, a.CouldToken)
}

// Ended says why a principal does not count any more, or returns "".
func (k *Keeper) Ended(who string) string {
	a := k.Current()
	name, is := access.TokenName(who)
	switch {
	case !is && a.RevokedPerson(who):
		return who + " is revoked"
	case !is:
		return ""
	}
	t, err := k.token(name)
	if err != nil {
		return err.Error()
	}
	return a.Ended(t, k.now())
}

func (k *Keeper) decide(a *access.Access, r access.Request) access.Answer {
	return k.ofToken(a, r, a.Decide, a.DecideToken)
}

func (k *Keeper) ofToken(a *access.Access, r access.Request, person func(access.Request) access.Answer, program func(access.Token, access.Request, time.Time) access.Answer) access.Answer {
	name, is := access.TokenName(r.Who)
	if !is {
		return person(r)
	}
	t, err := k.token(name)
	if err != nil {
		return access.Answer{Access: a.Digest, Reason: err.Error()}
	}
	return program(t, r, k.now())
}

func (k *Keeper) token(name string) (access.Token, error) {
	k.mu.Lock()
	tokens := k.tokens
	k.mu.Unlock()
	if tokens == nil {
		return access.Token{}, errors.New("this worker knows no API tokens")
	}
	return tokens.Named(name)
}

// Behind returns the person for whom a principal acts: the owner of a token, and otherwise
// the principal. It returns "" if that is not known.
func (k *Keeper) Behind(who string) string {
	name, is := access.TokenName(who)
	if !is {
		return who
	}
	t, err := k.token(name)
	if err != nil {
		return ""
	}
	return t.Owner
}

// Tokens knows API tokens by name.
type Tokens interface {
	Named(name string) (access.Token, error)
}

// Know says which API tokens there are. No token counts before the first call.
func (k *Keeper) Know(t Tokens) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tokens = t
}

// Sent is the verdict on what a worker sends for a principal whose command was judged
// before.
func (k *Keeper) Sent(principal string) Verdict {
	return Verdict{Principal: principal, Access: k.Current().Digest, OnRecord: true}
}

// Allows says whether a principal who has given a command may also do something that
// follows from it. groups are those that the login of the principal named.
func (k *Keeper) Allows(principal string, groups []string, verb access.Verb, o access.Object) Verdict {
	a := k.Current()
	answer := k.decide(a, access.Request{Who: principal, Groups: groups, Verb: verb, Object: o})
	return Verdict{Principal: principal, Groups: groups, Refused: answer.Reason, Access: a.Digest, Binding: answer.Binding, OnRecord: true}
}

// ByWorker reports whether a worker sent a signal that workers may send for persons.
func ByWorker(name string, value converter.RawValue) bool {
	return signals[name] == Either && payload.SignalledBy(value.Payload()) == payload.FromWorker
}

// BegunByWorker reports whether a worker wrote the input of a workflow.
func BegunByWorker(ctx workflow.Context) bool { return payload.StartedBy(ctx) == payload.FromWorker }

type keeperKey struct{}

// Of returns the keeper of the worker that runs a workflow, or nil.
func Of(ctx workflow.Context) *Keeper {
	k, _ := ctx.Value(keeperKey{}).(*Keeper)
	return k
}
