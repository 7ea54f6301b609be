package main

import (
	"context"
	"errors"
	"log/slog"

	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/config"
)

// keeperOf returns the keeper of the config's access file, or nil with authority: local.
func keeperOf(ctx context.Context, conf *config.Config, log *slog.Logger) (*authority.Keeper, error) {
	if conf.Authority != config.AuthorityRequired {
		return nil, nil
	}
	if conf.Access == "" {
		return nil, errors.New("authority: required needs an access file: set access in the config")
	}
	k, err := authority.Open(conf.Access, log)
	if err != nil {
		return nil, err
	}
	go k.Watch(ctx)
	return k, nil
}
