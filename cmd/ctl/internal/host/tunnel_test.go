package host

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/tunnel"
)

func said(kind string) error {
	return conn.APIFailure("tunnel", &api.Error{Kind: kind, Message: "test"})
}

// A worker that has just been started answers before it can open a tunnel, and while it starts,
// workers of other zones may be the only ones that answer.
func TestATunnelOutlivesTheRestartOfItsWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &tunnelling{}
		try := func(answers ...error) error {
			_, err := c.patient(t.Context(), func(context.Context) (net.Conn, error) {
				if len(answers) == 0 {
					return nil, nil
				}
				err := answers[0]
				answers = answers[1:]
				return nil, err
			})
			return err
		}
		if err := try(said(api.ErrElsewhere)); !kindIs(err, api.ErrElsewhere) {
			t.Errorf("a zone without a worker: %v", err)
		}
		if err := try(said(api.ErrStore), core.Unreachable("no worker")); err != nil {
			t.Errorf("at first: %v", err)
		}
		if err := try(core.Unreachable("no worker"), said(api.ErrElsewhere), said(api.ErrBusy), said(api.ErrStore)); err != nil {
			t.Errorf("later: %v", err)
		}
		for _, kind := range []string{api.ErrForbidden, api.ErrNotFound, api.ErrUnreachableHost} {
			if err := try(said(kind)); !kindIs(err, kind) {
				t.Errorf("%s: %v", kind, err)
			}
		}
	})
}

func TestATunnelEndsOnlyForWhatLastsAndItsCallerCanMend(t *testing.T) {
	c := &tunnelling{}
	for _, kind := range []string{api.ErrForbidden, api.ErrBadInput} {
		if !c.final(said(kind)) {
			t.Errorf("%s does not end it", kind)
		}
	}
	if !c.final(&tunnel.Failure{Kind: api.ErrRefused}) {
		t.Error("that sshd forbids it does not end it")
	}
	for _, err := range []error{said(api.ErrElsewhere), said(api.ErrBusy), said(api.ErrStore), said(api.ErrUnauthorized), said(api.ErrInternal), said(api.ErrNotFound),
		core.Unreachable("no worker"), &tunnel.Failure{Kind: api.ErrNotAnswered}, errors.New("lost")} {
		if c.final(err) {
			t.Errorf("%v ends it", err)
		}
	}
}
