// Command worker runs the workflows and activities of one zone and serves the
// bytes that do not go through Temporal.
//
//	worker [--config FILE]             run until SIGTERM or SIGINT
//	worker --check-config [--config F] say whether the config is right, and stop
//	worker version
//
// The config file is described in internal/config; it is FAIRLEAD_CONFIG, then
// ./fairlead.yaml, then ~/.config/fairlead/config.yaml where none is named.
//
// A worker that cannot reach Temporal or its store says so and waits for them;
// it does not give up and it does not spin. At SIGTERM it takes on nothing new,
// running pumps hand over (the next worker goes on where they were), viewers
// are sent away to come back, and it exits 0. Killed, it leaves nothing behind
// that another worker would not find.
//
// Logs go to standard error, one JSON object a line. Exit status: 0 stopped as
// asked, 1 failed, 2 the config or the command line is wrong, 4 the store
// is not the one it should be or does not open with our identity.
package main
