package payload

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"go.temporal.io/sdk/converter"
)

// Inputs, results, answers and recorded values of a workflow have the same place. Their
// purposes tell them apart. The mark of a worker covers the purpose, so a payload that was
// written for one purpose does not count for another. A payload without a purpose counts for
// none of these.

// A purposed is a value with the purpose for which a worker writes it. A note says more about
// the proof of an update: see Note.
type purposed struct {
	purpose string
	value   any
	note    string
}

// Input returns what a client of a worker passes as an argument of a workflow where no
// interceptor knows the type of the workflow: in the action of a Schedule.
func Input(workflowType string, arg any) any {
	return purposed{purpose: forInput(workflowType), value: arg}
}

func forInput(workflowType string) string { return "input/" + workflowType }

func forQuery(name string) string { return "query/" + name }

// forRecorded is the purpose of the nth value that a run records. A run that was reset has
// the values of the run before, and the same original id.
func forRecorded(originalRunID string, n int) string {
	return "recorded/" + originalRunID + "/" + strconv.Itoa(n)
}

// forUpdate is the purpose of what proves that a worker of ours accepted an update: its
// result, or a value that was recorded for it. It names the arguments by their digest.
func forUpdate(name, digest string) string { return "update/" + name + "/" + digest }

// digestOf returns a digest of arguments, as the default converter writes them.
func digestOf(args [][]byte) string {
	h := sha256.New()
	for _, arg := range args {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(arg))))
		h.Write(arg)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// digestOfValues is digestOf for values that were not converted yet.
func digestOfValues(args []any) (string, error) {
	all := make([][]byte, len(args))
	for i, arg := range args {
		p, err := converter.GetDefaultDataConverter().ToPayload(arg)
		if err != nil {
			return "", err
		}
		all[i] = p.GetData()
	}
	return digestOf(all), nil
}

func purposedAll(purpose string, args []any) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		out[i] = purposed{purpose: purpose, value: arg}
	}
	return out
}
