// Package seeds handles the files that codex needs to authenticate and be configured.
//
// A seed is a named set of files from a CODEX_HOME: auth.json, config.toml, AGENTS.md,
// rules, skills and prompts. It may also have Settings. Its kind says how codex
// authenticates: api_key, chatgpt, access_token, or provider (no auth.json; a key or a
// model server in config.toml).
//
// A Bundle holds the files of a seed in memory. A generation is one saved bundle:
// an encrypted blob that never changes. A Ref names a generation and is all that
// workflows see; a Manifest lists files with modes and digests and is all that
// people see. Pack, Save, Load, Plant and Wipe move a seed:
//
//	folder ──Pack──▶ Bundle ──Save──▶ store ──Load──▶ Bundle ──Plant──▶ host ──Wipe──▶ (gone, and checked)
//
// Promises:
//
//   - A secret's bytes are only in a Bundle, a Secret, an encrypted blob and 0600
//     files on a host whose key is pinned; never in an argument, an environment, an
//     error, a log or JSON.
//   - The owner's part of config.toml stays byte for byte. Our part lies between
//     marks and can be removed without a trace.
//   - A seed's Settings become part of config.toml for one session. They are never
//     in an environment or an argument.
//   - A session of the read-only or workspace-write sandbox runs under a profile
//     that denies its commands the files that contain a credential (see Profile).
//     A Decoy proves on each host that this works, before a credential is planted.
//   - A refresh token is sent a single time, and only to its issuer (Issuer). Only
//     invalid_grant, and the codes that codex treats like it, mean that a login is
//     dead. If a token was sent and no answer came, it may be used up: it is not
//     sent again unless a person says so. With Intend and SaveRefreshed, a token is
//     sent a single time even if the process is killed.
//   - Wipe succeeds only if it has looked again and found nothing.
package seeds
