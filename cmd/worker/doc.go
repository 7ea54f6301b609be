// Command worker runs the workflows and activities of one zone, and the HTTP API for bytes
// that do not go through Temporal.
//
//	worker [--config FILE]             run until SIGTERM or SIGINT
//	worker --takeover FOLDER           the same, and share FOLDER with the workers of this machine
//	worker --only api                  serve the HTTP API alone: no activities, no workflows
//	worker --check-config [--config F] check the config, report mistakes, and stop
//	worker version
//
// Without --config, the file (see internal/config) is $FAIRLEAD_CONFIG, or else
// ~/.config/fairlead/config.yaml. A file of the current folder is never read unasked.
//
// A worker waits for Temporal and its store. At SIGTERM it takes no new work, hands running
// pumps over to the next worker, tells viewers to reconnect, and exits with 0. If it is
// killed, another worker takes over its work.
//
// With --takeover each worker records its activities in FOLDER (internal/takeover). The
// other workers of that folder look for dead workers twice a second, and tell Temporal that
// their attempts have failed. So sessions go on about a second after `kill -9`. Without it
// they go on after ten seconds, when Temporal misses the heartbeats.
//
// Logs go to standard error, one JSON object a line. Exit status: 0 stopped as asked, 1
// failed, 2 the config or the command line is wrong, 4 the store is not the expected one,
// our identity cannot open it, or our payload keys cannot read what Temporal keeps.
package main
