// Command worker runs the workflows and activities of one zone. It also serves the HTTP API
// for bytes that do not go through Temporal.
//
//	worker [--config FILE]             run until SIGTERM or SIGINT
//	worker --takeover FOLDER           the same, and share FOLDER with the workers of this machine
//	worker --check-config [--config F] say whether the config is right, and stop
//	worker version
//
// The package internal/config describes the config file. Without --config it is
// FAIRLEAD_CONFIG, then ./fairlead.yaml, then ~/.config/fairlead/config.yaml.
//
// A worker that cannot reach Temporal or its store logs that and waits for them. At SIGTERM
// it takes no new work, running pumps hand over to the next worker, viewers are told to
// reconnect, and it exits with 0. If a worker is killed, another worker finds everything
// that it left.
//
// With --takeover each worker records in FOLDER which activities it is doing, under a lock
// that the kernel releases when its process ends (internal/takeover). The other workers of
// that folder, and those that are started later, look for released locks twice a second,
// and tell Temporal at once that those attempts have failed. So sessions go on about a
// second after `kill -9`. Otherwise they go on when the dead worker's heartbeats are
// missed, after ten seconds. `ctl up` gives its workers such a folder.
//
// Logs go to standard error, one JSON object a line. Exit status: 0 stopped as asked, 1
// failed, 2 the config or the command line is wrong, 4 the store is not the one it should
// be or does not open with our identity.
//
// main.go reads the command line and the config. serve.go starts and stops the parts of a
// worker. takeover.go ends the activities of dead workers. maintenance.go creates the
// Temporal Schedules. patience.go retries what may not be reachable yet. metrics.go and
// codec.go are the Prometheus and the payload codec endpoint.
package main
