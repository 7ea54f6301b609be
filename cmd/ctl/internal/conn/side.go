package conn

import (
	"context"
	"log/slog"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/internal/flows"
	gate "fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/config"
)

// side is what ctl decides about a connection: its flags and its config say it.
type side struct{ t *Conn }

var _ flows.Asks = side{}

func (s side) Wait(def time.Duration) time.Duration { return s.t.App.Wait(def) }
func (s side) Note(format string, args ...any)      { s.t.App.Note(format, args...) }
func (s side) Begins() bool                         { return s.t.App.Begins }
func (s side) Begin()                               { s.t.App.Begins = true }

func (s side) Sign(ctx context.Context, doing string, kind command.Kind, workflow, name string, args []any) ([]any, error) {
	return s.t.signed(ctx, doing, kind, workflow, name, args)
}

// Keeper returns the access file of the config, if it names one that can be used.
func (s side) Keeper() *gate.Keeper {
	conf, err := s.t.App.Config()
	if err != nil || conf.Authority != config.AuthorityRequired || conf.Access == "" {
		return nil
	}
	k, err := gate.Open(conf.Access, slog.New(slog.DiscardHandler))
	if err != nil {
		if _, told := s.t.warned.LoadOrStore(conf.Access, true); !told {
			s.t.App.Note("decisions that Temporal keeps are shown as unjudged, because ctl cannot use the access file of its config: %s", core.OneLine(err.Error(), 300))
		}
		return nil
	}
	k.AllowBefore(time.Now().AddDate(1, 0, 0)) // workers say which runs go on
	return k
}

func (s side) Understood(ctx context.Context, zone string, requires []string) error {
	return s.t.Understood(ctx, zone, requires)
}
