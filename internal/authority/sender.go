package authority

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/protocol"
)

// sent are the commands that a worker gives for the person whose command it carries out:
// sessions of a batch, a login that was captured from a host, and the export of a seed, for
// which its API has verified who asks.
var sent = map[string]bool{protocol.TypeSession: true, protocol.UpdatePutSeed: true, protocol.UpdateExportSeed: true}

// Sender returns an interceptor of a worker's client. It signs what activities send for a
// person, with the worker's key and that person's name: the field by of the arguments, or of
// a session's options. It refuses to sign for a person whom [command.WithPrincipal] does not
// name. The access file lists the key under workers.
func Sender(key ssh.Signer) interceptor.ClientInterceptor { return &sends{key: key} }

type sends struct {
	interceptor.ClientInterceptorBase
	key ssh.Signer
}

func (s *sends) InterceptClient(next interceptor.ClientOutboundInterceptor) interceptor.ClientOutboundInterceptor {
	return &sender{interceptor.ClientOutboundInterceptorBase{Next: next}, s.key}
}

type sender struct {
	interceptor.ClientOutboundInterceptorBase
	key ssh.Signer
}

func (s *sender) ExecuteWorkflow(ctx context.Context, in *interceptor.ClientExecuteWorkflowInput) (client.WorkflowRun, error) {
	if sent[in.WorkflowType] {
		args, err := s.sign(ctx, command.Start, in.Options.ID, in.WorkflowType, in.Args)
		if err != nil {
			return nil, err
		}
		signed := *in
		signed.Args = args
		in = &signed
	}
	return s.Next.ExecuteWorkflow(ctx, in)
}

func (s *sender) UpdateWorkflow(ctx context.Context, in *interceptor.ClientUpdateWorkflowInput) (client.WorkflowUpdateHandle, error) {
	if sent[in.UpdateName] {
		args, err := s.sign(ctx, command.Update, in.WorkflowID, in.UpdateName, in.Args)
		if err != nil {
			return nil, err
		}
		signed := *in
		signed.Args = args
		in = &signed
	}
	return s.Next.UpdateWorkflow(ctx, in)
}

func (s *sender) UpdateWithStartWorkflow(ctx context.Context, in *interceptor.ClientUpdateWithStartWorkflowInput) (client.WorkflowUpdateHandle, error) {
	if o := in.UpdateOptions; o != nil {
		if sent[o.UpdateName] {
			args, err := s.sign(ctx, command.Update, o.WorkflowID, o.UpdateName, o.Args)
			if err != nil {
				return nil, err
			}
			signed, opts := *in, *o
			opts.Args = args
			signed.UpdateOptions = &opts
			in = &signed
		}
	}
	return s.Next.UpdateWithStartWorkflow(ctx, in)
}

func (s *sender) sign(ctx context.Context, kind command.Kind, workflow, name string, args []any) ([]any, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("sign %s to %s: it has %d arguments, and one can be signed", name, workflow, len(args))
	}
	raw, err := command.Marshal(args[0])
	if err != nil {
		return nil, fmt.Errorf("sign %s to %s: %w", name, workflow, err)
	}
	var who struct {
		By      string `json:"by"`
		Options struct {
			By string `json:"by"`
		} `json:"options"`
		Auth *protocol.Auth `json:"auth"`
	}
	if err := json.Unmarshal(raw, &who); err != nil {
		return nil, fmt.Errorf("sign %s to %s: %w", name, workflow, err)
	}
	if who.Auth != nil { // a person signed it
		return args, nil
	}
	if who.By == "" {
		who.By = who.Options.By
	}
	if who.By == "" {
		who.By = access.Worker
	}
	if who.By != access.Worker && who.By != command.PrincipalFrom(ctx) {
		return nil, fmt.Errorf("sign %s to %s for %.100q: %w: what asks for it began before this worker took signed commands only, so give that command again", name, workflow, who.By, command.ErrNotJudged)
	}
	signed, err := command.SignAs(kind, s.key, who.By, command.GroupsFrom(ctx), workflow, name, raw, time.Now())
	if err != nil {
		return nil, err
	}
	return []any{signed}, nil
}
