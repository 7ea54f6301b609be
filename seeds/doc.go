// Package seeds handles the files that codex needs to log in and be configured.
//
// A seed is a named set of files from a CODEX_HOME: auth.json, config.toml, AGENTS.md,
// rules, skills and prompts, and perhaps Settings. Its Kind says how codex authenticates.
//
// A Bundle holds the files of a seed in memory. A generation is one saved bundle: an
// encrypted blob that never changes. Workflows see only its Ref. People see only a
// Manifest: names, modes and digests.
//
//	folder ──Pack──▶ Bundle ──Save──▶ store ──Load──▶ Bundle ──Plant──▶ host ──Wipe──▶ (gone, and checked)
//
// Promises:
//
//   - A secret's bytes are only in a Bundle, a Secret, an encrypted blob and 0600 files on
//     a host whose key is pinned; never in an argument, an environment, an error, a log or
//     JSON.
//   - The owner's part of config.toml stays byte for byte. Our part, which includes the
//     Settings, lies between marks and can be removed without a trace.
//   - In the sandboxes read-only and workspace-write, a profile denies commands the files
//     that contain a credential (see Profile). A Decoy proves this on each host before a
//     credential is planted.
//   - A refresh token is sent a single time, and only to its issuer (Issuer). Only
//     invalid_grant, and the codes that codex treats like it, mean that a login is dead. A
//     token that was sent without an answer may be used up: it is not sent again unless a
//     person says so. With Intend and SaveRefreshed this holds even if the process is
//     killed.
//   - Wipe succeeds only if it has looked again and found nothing.
package seeds
