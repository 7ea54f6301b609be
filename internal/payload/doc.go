// Package payload encrypts what Temporal keeps: inputs, results, signals,
// updates, queries' answers, memos, heartbeats and the text of errors. The
// server, its database and its exports then hold no prompt, no command and no
// diff in the clear. Names (workflow ids, types, search attributes) stay plain:
// Temporal finds things by them.
//
// A key file (mode 0600) has one key a line. The first encrypts, all decrypt:
//
//	FAIRLEAD-PAYLOAD-KEY-kq3…   # the newest
//	FAIRLEAD-PAYLOAD-KEY-x81…   # what was encrypted with it can still be read
//
// To change the key, add the new one as the last line of every program's file,
// then make it the first; drop the old one when no history holds it any more.
//
// What callers may count on:
//
//   - a payload that was changed, or that belongs to another namespace, is
//     ErrTorn and one whose key is missing is ErrNoKey: never other bytes, never
//     the ciphertext as if it were the value;
//   - a payload that is not encrypted is taken as it is, so what was recorded
//     before there was a key and what Temporal's own CLI and UI send are understood;
//   - a payload from 128 KiB on is packed (zstd) before it is encrypted, with a key
//     or without: encoding binary/zstd. Temporal bounds what is left of it, at 2 MiB;
//   - with no key nothing is encrypted, and what others encrypted is ErrNoKey;
//   - a workflow that meets ErrNoKey does not go on without: its task fails and
//     comes again, until a worker has the key. Temporal's SDK would drop such a
//     signal, and fail such a workflow for good;
//   - everything here is safe for concurrent use.
//
// The cipher is AES-256-GCM with a key of its own for each payload, derived as
// C2SP's XAES-256-GCM says, so that random nonces (24 bytes) do not run out. The
// format's version, the namespace and the key's id are bound to it. The workflow
// is not: the UI decodes payloads without saying whose they are, and since plain
// payloads are taken as well, whoever may write to Temporal needs no swap.
//
// Metadata is as in Temporal's samples: encoding binary/encrypted, and
// encryption-key-id, which is made of the key and tells nothing of it.
package payload
