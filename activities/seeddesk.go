package activities

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/internal/protocol"
)

// A seedDesk calls the workflows that own seeds.
type seedDesk interface {
	now(ctx context.Context, seed string) (SeedNow, error)
	rotated(ctx context.Context, seed string, what RotatedSeed) (SeedNow, error)
	save(ctx context.Context, seed string, what SaveSeed) (SeedNow, error)
}

// errSeedFenced says that the lease on the seed has ended, or that the session has a
// newer lease by now.
var errSeedFenced = errors.New("the seed is not held any more")

type temporalDesk struct{ client client.Client }

func (d temporalDesk) now(ctx context.Context, seed string) (now SeedNow, err error) {
	if now, err = askSeed(ctx, d.client, seed); err != nil {
		return now, fmt.Errorf("ask for the newest generation of seed %s: %w", seed, bareRefusal(err))
	}
	return now, nil
}

func (d temporalDesk) rotated(ctx context.Context, seed string, what RotatedSeed) (SeedNow, error) {
	now, err := d.update(ctx, seed, protocol.UpdateRotatedSeed, what)
	if err != nil {
		return now, fmt.Errorf("mark seed %s as rotated: %w", seed, err)
	}
	return now, nil
}

func (d temporalDesk) save(ctx context.Context, seed string, what SaveSeed) (SeedNow, error) {
	now, err := d.update(ctx, seed, protocol.UpdateSaveSeed, what)
	if err != nil {
		return now, fmt.Errorf("make what is in the store the next generation of seed %s: %w", seed, err)
	}
	return now, nil
}

func (d temporalDesk) update(ctx context.Context, seed, name string, what any) (SeedNow, error) {
	now, err := updateSeed(ctx, d.client, seed, name, what)
	return now, bareRefusal(err)
}

// askSeed and updateSeed return a workflow's errors unchanged.
func askSeed(ctx context.Context, c client.Client, seed string) (now SeedNow, err error) {
	v, err := c.QueryWorkflow(ctx, protocol.SeedID(seed), "", protocol.QuerySeedNow)
	if err == nil {
		err = v.Get(&now)
	}
	return now, err
}

func updateSeed(ctx context.Context, c client.Client, seed, name string, what any) (now SeedNow, err error) {
	h, err := c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: protocol.SeedID(seed), UpdateName: name, Args: []any{what}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = h.Get(ctx, &now)
	}
	return now, err
}

// bareRefusal keeps the message of a workflow's error, and whether it means fenced. It
// drops the error's Temporal type: with it, the error would end our activity as if the
// activity had made the error itself.
func bareRefusal(err error) error {
	var app *temporal.ApplicationError
	switch {
	case !errors.As(err, &app):
		return err
	case app.Type() == protocol.RefusedFenced:
		return fmt.Errorf("%w: %s", errSeedFenced, app.Message())
	}
	return errors.New(app.Message())
}
