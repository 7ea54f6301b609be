// Package admit takes commands to a workflow from principals who may give them.
//
// Where the worker has no authority, everybody's commands are taken. Where it has one, an
// update is judged in its validator, so that a refused one leaves nothing in the history. A
// signal is judged in a recorded side effect, which costs one event.
package admit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// Judges reports whether this run of a workflow was begun by code that judges commands.
func Judges(ctx workflow.Context) bool {
	return authority.Version(ctx) >= 1
}

// A Door takes the commands of one workflow.
type Door struct {
	// Ctx is the workflow's.
	Ctx workflow.Context
	// Signed says that signals of this run are judged.
	Signed bool
	// Nonces remembers the commands that counted, in the carried state.
	Nonces *command.Nonces
	// Object returns what conditions of the access file see.
	Object func() access.Object
	// Repeats reports whether a command whose nonce was used may be answered again.
	Repeats func(name string, plain []byte) bool
	// Began reports whether a workflow began this one. Only that one may send signals that
	// nobody signed.
	Began func(by protocol.Sender) bool
}

// Update refuses an update that does not count, or that check refuses. check gets it without
// its auth, with its principal in the field by. Update is for validators; ctx is the
// validator's. It records each refusal.
func (d *Door) Update(ctx workflow.Context, name string, verb access.Verb, raw []byte, check func(plain []byte) error) error {
	plain, v, err := d.update(name, verb, raw)
	if err == nil {
		err = check(plain)
	}
	if err != nil {
		authority.Refused(d.Ctx, name, string(verb), raw, v, err)
	} else {
		authority.Judged(ctx, v)
	}
	return err
}

// Accepted returns the verdict on an update that its validator took. ctx is that of its handler.
func (d *Door) Accepted(ctx workflow.Context, raw []byte) authority.Verdict {
	v := authority.Verdict{Access: authority.JudgedBy(ctx), OnRecord: true}
	if _, auth, err := command.Plain(raw); err == nil && auth != nil {
		v.Principal = auth.Principal
	}
	return v
}

func (d *Door) update(name string, verb access.Verb, raw []byte) (plain []byte, v authority.Verdict, err error) {
	plain, auth, err := command.Plain(raw)
	if err != nil {
		return nil, v, kit.Refuse(protocol.RefusedBadInput, "%s: %v", name, err)
	}
	k := authority.Of(d.Ctx)
	if k == nil {
		v.Refused = authority.RevokedApprover(d.Ctx, name, plain)
		return plain, v, d.refusal(name, v, plain, nil)
	}
	v = k.Judge(d.command(command.Update, name, verb, raw, 0))
	return plain, v, d.refusal(name, v, plain, auth)
}

// Signal is as Update, for signals. What a worker sends for a person whose command it has
// judged counts without a signature, if the signal is one that workers send.
// v is the verdict, which need not be why it is refused. Whatever the outcome, the signal counts
// once.
func (d *Door) Signal(name string, verb access.Verb, value converter.RawValue) (plain []byte, v authority.Verdict, err error) {
	raw := value.Payload().GetData()
	plain, auth, err := command.Plain(raw)
	if err != nil {
		return nil, v, kit.Refuse(protocol.RefusedBadInput, "%s: %v", name, err)
	}
	if !d.Signed {
		return plain, v, d.unsigned(name, raw, plain)
	}
	of := digestOf(name, raw)
	err = workflow.SideEffect(d.Ctx, func(workflow.Context) any {
		v := d.judged(name, verb, value, plain, auth)
		v.Of = of
		return v
	}).Get(&v)
	if err != nil {
		return nil, authority.Verdict{}, err
	}
	if v.Of != of {
		return nil, authority.Verdict{}, kit.Refuse(protocol.RefusedForbidden, "%s: the history has the verdict on another command in this place, so this command does not count: give it again", name)
	}
	refused := d.refusal(name, v, plain, auth)
	if auth != nil && v.Nonce != "" {
		// Its signature counts. If it is refused now, it is not taken later.
		d.Nonces.Use(auth, workflow.Now(d.Ctx))
	}
	return plain, v, refused
}

// unsigned judges a signal that needs no principal's signature. It refuses the signal if an
// approver with a revoked key has signed it. A signal with an approver's signature costs one
// event for the verdict; other signals cost none.
func (d *Door) unsigned(name string, raw, plain []byte) error {
	if !authority.SignedByApprover(name, plain) || authority.Version(d.Ctx) < 2 {
		return nil
	}
	of := digestOf(name, raw)
	var v authority.Verdict
	err := workflow.SideEffect(d.Ctx, func(workflow.Context) any {
		return authority.Verdict{Of: of, Refused: authority.RevokedApprover(d.Ctx, name, plain)}
	}).Get(&v)
	if err == nil && v.Of != of {
		v.Refused = "the history has the verdict on another command in this place, so this command does not count: give it again"
	}
	if err != nil {
		return err
	}
	return d.refusal(name, v, plain, nil)
}

func (d *Door) judged(name string, verb access.Verb, value converter.RawValue, plain []byte, auth *protocol.Auth) authority.Verdict {
	k := authority.Of(d.Ctx)
	switch {
	case k == nil:
		return authority.Verdict{Refused: authority.RevokedApprover(d.Ctx, name, plain)}
	case auth == nil && authority.ByWorker(name, value):
		return d.sent(k, plain)
	}
	return k.Judge(d.command(command.Signal, name, verb, value.Payload().GetData(), command.KeptFor))
}

// digestOf identifies a command to a workflow. A run that is reset can meet the verdicts that
// were recorded before in another order.
func digestOf(name string, raw []byte) string {
	sum := sha256.Sum256(append([]byte(name+"\x00"), raw...))
	return hex.EncodeToString(sum[:])
}

// sent judges what a worker sent for a person whose command it has judged.
func (d *Door) sent(k *authority.Keeper, plain []byte) authority.Verdict {
	var c struct {
		By string `json:"by"`
		protocol.Sender
	}
	err := json.Unmarshal(plain, &c)
	if err != nil || c.By == "" {
		c.By = access.Worker
	}
	v := k.Sent(c.By)
	if err != nil || d.Began == nil || !d.Began(c.Sender) {
		v.Refused = fmt.Sprintf("workflow %.200q sent it, and only the batch or schedule that began this workflow may do so without a signature", c.From)
	}
	return v
}

// BegunBy reports whether a workflow is the parent of this one.
func BegunBy(ctx workflow.Context, by protocol.Sender) bool {
	parent := workflow.GetInfo(ctx).ParentWorkflowExecution
	return parent != nil && parent.ID == by.From
}

// Took remembers a command of an update that its validator took, and of a signal.
func (d *Door) Took(raw []byte) {
	if _, auth, err := command.Plain(raw); err == nil && auth != nil {
		d.Nonces.Use(auth, workflow.Now(d.Ctx))
	}
}

func (d *Door) command(kind command.Kind, name string, verb access.Verb, raw []byte, waited time.Duration) authority.Command {
	return authority.Command{
		Received: command.Received{Workflow: workflow.GetInfo(d.Ctx).WorkflowExecution.ID, Name: name, Kind: kind, Raw: raw, Waited: waited},
		Verb:     verb, Object: d.Object(),
	}
}

func (d *Door) refusal(name string, v authority.Verdict, plain []byte, auth *protocol.Auth) error {
	if v.Refused == "" && auth != nil && !d.Nonces.Fresh(auth) && (d.Repeats == nil || !d.Repeats(name, plain)) {
		v.Refused = "it was given before, and counts once: its nonce was used, or it is older than all that are remembered"
	}
	if v.Refused == "" {
		return nil
	}
	return kit.Refuse(protocol.RefusedForbidden, "%s: %s", name, v.Refused)
}
