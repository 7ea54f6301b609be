// Package config is the one config file of the worker and of ctl.
//
// The file is YAML and every key has a default, so that an empty file, or
// none, is a config. A key that does not exist is a mistake, and so is a value
// that cannot be right; Load reports every mistake of a file at once, each with
// its line. What only the machine can tell (is the identity file there? may
// others read it?) is for CheckFiles, which the worker calls at its start.
//
//	temporal:
//	  address: temporal.example:7233   # default 127.0.0.1:7233
//	  namespace: default
//	  tls: {ca: ca.pem, cert: us.pem, key: us.key, server_name: temporal}
//	  payload_key: /etc/fairlead/payload.key # encrypts what Temporal keeps; the same for every worker and ctl
//	zone: default                      # which hosts this worker looks after
//	store:
//	  url: file:///var/lib/fairlead/store
//	  identity: /etc/fairlead/identity # age; losing it loses everything
//	  recipients: [age1…]              # default: those of the identity
//	api:
//	  listen: unix:///run/fairlead/api.sock
//	  codec_listen: 127.0.0.1:7234     # where Temporal's UI and CLI have payloads decoded: http://…/codec; off: nowhere
//	  codec_origins: [http://127.0.0.1:8233] # the UI's pages
//	codex:
//	  source: /opt/fairlead/codex      # the tree that is brought to hosts
//	  any_version: false               # true: sessions talk to a codex outside of the versions that were tried
//	log: {format: json, level: info}
//	limits:
//	  pumps: 1000                      # activities at once; one for each host with sessions looks after those that wait
//	  line: 33554432                   # the longest line of codex's, in bytes; the same on all workers
//	  watch: 25s                       # how often it looks
//	seeds:
//	  token_endpoint: https://auth.openai.com/oauth/token # where logins are refreshed, also by codex on hosts
//	  issuer: https://auth.openai.com  # where `ctl seed login` logs in
//	  maintain: 1h                     # how often seeds are verified whose last proof is old; 0 never
//	  unprotected: refuse              # or allow: a session where codex cannot keep the agent from its credential
//	deliver:                           # what codex hands over with --tools deliver
//	  max_bytes: 67108864              # one file (64 MiB)
//	  session_bytes: 1073741824        # all of a session, each content once (1 GiB)
//	  session_calls: 1000              # how often a session may hand something over, or try
//	snapshots:
//	  keep: 10                         # newest of each session; its very newest is kept in any case
//	  max_age: 0s                      # of the others; 0: any
//	  max_bytes: 21474836480           # what one may hold (20 GiB)
//	  prune: 24h                       # how often the rest is dropped, and what nothing needs removed; 0 never
//	hosts:                             # those of the worker's zone
//	  check: 6h                        # how often they are checked; 0 never
//	  leftovers: 6h                    # how often somebody looks what sessions left there; 0 never
//	timeouts:                          # of sessions that ctl begins, where its flags say nothing else
//	  startup: 1m                      # codex's first answer
//	  request: 1m                      # its answer to a request
//	  silence: 2m                      # without a word, before it is asked for a sign of life
//	  quiet: 30m                       # of the model after a tool; 0: any time
//	  turn: 24h                        # a whole turn, but for the time in which only a person is waited for
//	sign_with: ~/.ssh/id_ed25519       # what ctl signs decisions with; or agent, agent:SHA256:…
//	metrics: {listen: 127.0.0.1:9090}  # for Prometheus; with pprof: true also what Go's profiler sees
//
// Temporal's own environment variables (TEMPORAL_*) and TOML profiles win over
// the section temporal.
package config
