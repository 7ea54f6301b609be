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
//   - with a key, a payload is accepted only at the place for which it was encrypted: a
//     workflow, an activity's type in a workflow, or a signal or an update by its name.
//     Elsewhere it returns ErrMoved. A plain or missing one returns ErrOlder;
//   - a refused signal is dropped and logged, at each replay again. A refused update is
//     rejected and does not get into the history. A refused query fails. A refused input of
//     an activity fails the attempt, and a refused result is an error of the activity. None
//     blocks a workflow;
//   - a payload of 128 KiB or more is compressed (binary/zstd) before it is encrypted, also
//     without keys. Temporal's limit of 2 MiB applies to the result;
//   - in a workflow ErrNoKey, and ErrOlder for its input, fail the workflow task, which is
//     retried until a worker reads it;
//   - everything here is safe for concurrent use.
//
// The cipher is C2SP's XAES-256-GCM, so random nonces (24 bytes) do not run out. The
// format's version, the namespace, the key's id and the place are authenticated.
//
// Older forms are plain payloads, and those that are bound to the namespace only. A codec
// reads them in workflows that began before the time that the user names (Since). The time
// decides alone, so a replay decides as before. Where the SDK does not say when a workflow
// began, such as for the answer to a client, a codec with such a time reads older forms.
//
// A worker also marks what it encrypts, with a key that only workers have (ForWorkers): an
// HMAC of the namespace, the place, the purpose and the encrypted content. A worker that
// requires marks refuses what only workers may write if it has no mark. The mark of an
// update's result proves that a worker accepted the update (Accepted). Programs without that
// key, such as ctl, read marked payloads as any other.
//
// A place does not name the run, the activity's id or the direction. So whoever may write to
// Temporal can repeat what was said at a place: start a closed workflow again with its
// input, or return an earlier result of the same type of activity in the same workflow.
// A mark does not prevent this: a worker's signal can be sent again to the same workflow.
// Types, ids, timers and failures without a text are plain and can be forged.
//
// The metadata is as in Temporal's samples. encryption-key-id reveals nothing about the
// key. fairlead-for is the place, so that the UI, which does not name it, can decode.
package payload
