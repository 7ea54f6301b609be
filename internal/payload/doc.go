// Package payload encrypts the payloads that Temporal keeps: inputs, results, signals,
// updates, answers to queries, memos, heartbeats and the text of errors. So the server, its
// database and its exports contain no prompt, command or diff in the clear. Names (workflow
// ids, types, search attributes) stay plain.
//
// A key file (mode 0600) has one key per line. The first encrypts, and all decrypt:
//
//	FAIRLEAD-PAYLOAD-KEY-kq3…   # the newest
//	FAIRLEAD-PAYLOAD-KEY-x81…   # an older key, for what was encrypted with it
//
// To change the key, append the new one to every program's key file, then move it to the
// first line. Remove the old key when no history needs it.
//
// Guarantees:
//
//   - decoding a payload that was changed, or is of another namespace, returns ErrTorn;
//     without the key, ErrNoKey. It never returns wrong bytes or the ciphertext;
//   - a plain payload is accepted, so that older histories and messages of Temporal's own
//     CLI and UI can be read;
//   - a payload of 128 KiB or more is compressed (binary/zstd) before it is encrypted, also
//     without keys. Temporal's limit of 2 MiB applies to the result;
//   - in a workflow ErrNoKey fails the workflow task, which is retried until a worker has
//     the key;
//   - everything here is safe for concurrent use.
//
// The cipher is C2SP's XAES-256-GCM, so random nonces (24 bytes) do not run out. The
// format's version, the namespace and the key's id are authenticated. The workflow is not,
// because the UI decodes payloads without naming it; and an attacker who can write to
// Temporal need not swap encrypted payloads, because plain ones are accepted.
//
// The metadata is as in Temporal's samples. encryption-key-id reveals nothing about the
// key.
package payload
