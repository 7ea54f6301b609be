// Package seeds holds what codex needs to be somebody.
//
// A seed is a named set of files from a CODEX_HOME: auth.json, config.toml,
// AGENTS.md, rules, skills, prompts; maybe with Settings. Its kind says how codex will prove who it
// is: api_key, chatgpt, access_token, or provider (no auth.json; a key or a
// model server in config.toml).
//
// A Bundle is the files of a seed in memory. A generation is one bundle as it
// was saved: an encrypted blob that is never changed. A Ref names a generation
// and is all that workflows see; a Manifest lists files with modes and digests
// and is all that people see. Pack, Plant and Wipe are a seed's ways in and out:
//
//	folder ──Pack──▶ Bundle ──Save──▶ store ──Load──▶ Bundle ──Plant──▶ host ──Wipe──▶ (gone, and looked at)
//
// Promises:
//
//   - a secret's bytes are in a Bundle, a Secret, an encrypted blob and 0600
//     files on a host whose key is pinned; never in an argument, an environment,
//     an error, a log or JSON;
//   - what the owner wrote in config.toml survives byte for byte; what we add
//     lies between marks and can be taken out again without a trace;
//   - what a seed's Settings say becomes a part of config.toml, for one session,
//     and never an environment or an argument;
//   - a session of the read-only or workspace-write sandbox runs under a profile
//     that denies its commands the files that hold a credential (see Profile),
//     and whether it does so on a host is proven there with a Decoy first;
//   - a refresh token is sent to its issuer once and to nobody else (Issuer); only
//     invalid_grant, and what codex takes for it, means that a login is dead, and
//     a token that was sent and not answered may be spent: it is not used again
//     without a person's word. Intend and SaveRefreshed make both survive a kill;
//   - Wipe is success only when it has looked again and found nothing.
package seeds
