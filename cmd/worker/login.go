package main

import (
	"log/slog"
	"os"
	"path/filepath"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/login"
)

// offerLogin lets people log in at the API, if the config has a login.
func offerLogin(opts *api.Options, conf *config.Config, keeper *authority.Keeper, log *slog.Logger) (closer func(), err error) {
	if keeper != nil {
		opts.Access = keeper.Current
	}
	l := conf.Login
	if !l.Configured() || keeper == nil {
		return func() {}, nil
	}
	desk, err := login.Open(login.Options{
		Settings: login.Settings{Issuer: l.Issuer, ClientID: l.ClientID, Scopes: l.Scopes},
		Claims:   login.Claims{Principal: l.PrincipalClaim, Groups: l.GroupsClaim},
		KeyFile:  l.CertificateKey, Lifetime: l.Lifetime, Access: keeper.Current, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	opts.Login = desk
	return desk.Close, nil
}

// loginFolders returns the folders in which `ctl login` keeps keys by default, here and on
// hosts: a command that read one could sign for a person.
func loginFolders() []string {
	all := []string{"~/.local/state/fairlead/login"}
	if state := os.Getenv("FAIRLEAD_STATE"); filepath.IsAbs(state) {
		all = append(all, filepath.Join(state, "login"))
	}
	if base := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(base) {
		all = append(all, filepath.Join(base, "fairlead", "login"))
	}
	return all
}
