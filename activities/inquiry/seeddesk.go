package inquiry

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/internal/protocol"
)

// A SeedDesk calls the workflows of seeds.
type SeedDesk interface {
	Now(ctx context.Context, seed string) (SeedNow, error)
	Rotated(ctx context.Context, seed string, what RotatedSeed) (SeedNow, error)
	Save(ctx context.Context, seed string, what SaveSeed) (SeedNow, error)
}

// TemporalDesk is the SeedDesk of a client.
type TemporalDesk struct{ Client client.Client }

func (d TemporalDesk) Now(ctx context.Context, seed string) (now SeedNow, err error) {
	if now, err = askSeed(ctx, d.Client, seed); err != nil {
		return now, fmt.Errorf("ask for the newest generation of seed %s: %w", seed, bareRefusal(err))
	}
	return now, nil
}

func (d TemporalDesk) Rotated(ctx context.Context, seed string, what RotatedSeed) (SeedNow, error) {
	now, err := d.update(ctx, seed, protocol.UpdateRotatedSeed, what)
	if err != nil {
		return now, fmt.Errorf("mark seed %s as rotated: %w", seed, err)
	}
	return now, nil
}

func (d TemporalDesk) Save(ctx context.Context, seed string, what SaveSeed) (SeedNow, error) {
	now, err := d.update(ctx, seed, protocol.UpdateSaveSeed, what)
	if err != nil {
		return now, fmt.Errorf("make what is in the store the next generation of seed %s: %w", seed, err)
	}
	return now, nil
}

func (d TemporalDesk) update(ctx context.Context, seed, name string, what any) (SeedNow, error) {
	now, err := updateSeed(ctx, d.Client, seed, name, what)
	return now, bareRefusal(err)
}

// askSeed and updateSeed return errors unchanged.
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

// bareRefusal drops a workflow error's Temporal type, which would end our activity as if it
// were its own. It keeps the message, and whether it means fenced.
func bareRefusal(err error) error {
	var app *temporal.ApplicationError
	switch {
	case !errors.As(err, &app):
		return err
	case app.Type() == protocol.RefusedFenced:
		return fmt.Errorf("%w: %s", kit.ErrSeedFenced, app.Message())
	}
	return errors.New(app.Message())
}

// SeedAnswer asks a seed's workflow; ok is false if there is none.
type SeedAnswer func(ctx context.Context, name string) (now SeedNow, ok bool, err error)

// AskSeedIfAny is a SeedAnswer; c may be nil.
func AskSeedIfAny(ctx context.Context, c client.Client, name string) (now SeedNow, ok bool, err error) {
	if c == nil {
		return now, false, errors.New("this worker has no connection to Temporal")
	}
	v, err := c.QueryWorkflow(ctx, protocol.SeedID(name), "", protocol.QuerySeedNow)
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return now, false, nil
	}
	if err == nil {
		err = v.Get(&now)
	}
	if err != nil {
		return now, false, fmt.Errorf("ask what is known of seed %s: %w", name, err)
	}
	return now, true, nil
}

// A TokenDesk asks for newer tokens.
type TokenDesk interface {
	Now(ctx context.Context, seed string) (SeedNow, error)
	Refresh(ctx context.Context, seed string, what RefreshSeed) (SeedNow, error)
}

// TemporalTokens is the TokenDesk of a client.
type TemporalTokens struct{ Client client.Client }

func (d TemporalTokens) Now(ctx context.Context, seed string) (SeedNow, error) {
	return askSeed(ctx, d.Client, seed)
}

func (d TemporalTokens) Refresh(ctx context.Context, seed string, what RefreshSeed) (SeedNow, error) {
	return updateSeed(ctx, d.Client, seed, protocol.UpdateRefreshSeed, what)
}
