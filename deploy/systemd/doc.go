// Package systemd has the units of a worker for machines with systemd.
//
//	fairlead-worker.service  a worker
//	fairlead-api.service     only its HTTP API and the console (worker --only api)
//	sysusers.conf            the user that both run as
//
// Releases have them below lib/systemd and lib/sysusers.d.
//
// The config and each secret are files of root below /etc/fairlead. systemd gives copies to
// the service alone (LoadCredential), in one folder. The config is one of them, so its relative
// paths name the others.
//
// The units leave a service little: `systemd-analyze security` gives an exposure of at most
// 3.0. Sessions on the host "local" need more than that: such a service is for hosts that are
// reached by SSH.
package systemd

import "embed"

// Units are the files of this package that a release has.
//
//go:embed *.service sysusers.conf
var Units embed.FS
