// Command worker runs the workflows and activities of one zone. It also serves the HTTP API
// for bytes that do not go through Temporal.
//
//	worker [--config FILE]             run until SIGTERM or SIGINT
//	worker --takeover FOLDER           the same, and share FOLDER with the workers of this machine
//	worker --check-config [--config F] check the config, report mistakes, and stop
//	worker version
//
// The package internal/config describes the config file. Without --config, the file is the
// one that FAIRLEAD_CONFIG names, or else ./fairlead.yaml, or else
// ~/.config/fairlead/config.yaml.
//
// A worker that cannot reach Temporal or its store logs this and waits. At SIGTERM a worker
// takes no new work, hands running pumps over to the next worker, tells viewers to
// reconnect, and exits with 0. If a worker is killed, another worker takes over all its
// work.
//
// With --takeover each worker records in FOLDER which activities it is doing, under a lock
// that the kernel releases when its process ends (internal/takeover). The other workers of
// that folder, also ones that start later, look for released locks twice a second. They
// tell Temporal at once that the attempts of a dead worker have failed. So sessions go on
// about a second after `kill -9`. Without --takeover they go on after ten seconds, when
// Temporal misses the dead worker's heartbeats. `ctl up` gives its workers such a folder.
//
// Logs go to standard error, one JSON object a line. Exit status: 0 stopped as asked, 1
// failed, 2 the config or the command line is wrong, 4 the store is not the expected one,
// or our identity cannot open it.
//
// main.go reads the command line and the config. serve.go starts and stops the parts of a
// worker. takeover.go ends the activities of dead workers. maintenance.go creates the
// Temporal Schedules. patience.go retries calls to services that may not be reachable yet.
// metrics.go and codec.go are the Prometheus and the payload codec endpoint.
package main
