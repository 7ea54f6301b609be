// Package payload encrypts the payloads that Temporal keeps: inputs, results, signals,
// updates, answers to queries, memos, heartbeats and the text of errors. So the server, its
// database and its exports contain no prompt, command or diff in the clear. Names (workflow
// ids, types, search attributes) stay plain, because Temporal needs them to find things.
//
// A key file (mode 0600) has one key per line. The first key encrypts, and all keys
// decrypt:
//
//	FAIRLEAD-PAYLOAD-KEY-kq3…   # the newest
//	FAIRLEAD-PAYLOAD-KEY-x81…   # an older key, for what was encrypted with it
//
// To change the key, append the new one to the key file of every program, then move
// it to the first line. Remove the old key when no history is encrypted with it any
// more.
//
// Guarantees:
//
//   - decoding a payload that was changed, or that belongs to another namespace, returns
//     ErrTorn. If the key is missing, it returns ErrNoKey. It never returns wrong bytes or
//     the ciphertext as the value;
//   - a payload that is not encrypted is accepted, so that histories from before the first
//     key and messages of Temporal's own CLI and UI can be read;
//   - a payload of 128 KiB or more is compressed (zstd) before it is encrypted, with
//     or without keys: encoding binary/zstd. Temporal's limit of 2 MiB applies to the
//     result;
//   - without a key nothing is encrypted, and decoding a payload that others encrypted
//     returns ErrNoKey;
//   - in a workflow ErrNoKey fails the workflow task, which is retried until a worker
//     has the key. Temporal's SDK alone would drop a signal that it cannot decrypt,
//     and fail a workflow whose input it cannot decrypt;
//   - everything here is safe for concurrent use.
//
// The cipher is AES-256-GCM with a separate key for each payload, which is derived as
// C2SP's XAES-256-GCM specifies. So random nonces (24 bytes) do not run out. The format's
// version, the namespace and the key's id are authenticated with the payload. The workflow
// is not authenticated, because the UI decodes payloads without naming their workflow. This
// would add no protection either: plain payloads are accepted too, so an attacker who can
// write to Temporal need not swap encrypted ones.
//
// The metadata follows Temporal's samples: encoding binary/encrypted, and
// encryption-key-id, which is derived from the key and reveals nothing about it.
package payload
