package records

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strings"

	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/store"
)

// AuditPrefix begins the keys of audit records.
const AuditPrefix = "audit/"

// auditPart is a part of an entity's name that can be part of a key as it is.
var auditPart = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,99}$`)

// AuditKeys begins the keys of an entity's records, or of all entities below it.
func AuditKeys(entity string) string {
	parts := strings.Split(entity, "/")
	for i, p := range parts {
		if !auditPart.MatchString(p) || strings.HasPrefix(p, "x--") {
			sum := sha256.Sum256([]byte(p))
			parts[i] = "x--" + hex.EncodeToString(sum[:16])
		}
	}
	return AuditPrefix + strings.Join(parts, "/") + "/"
}

// auditKey names a blob after its first record and its content, so that the same records
// are the same blob, and others do not replace it.
func auditKey(b audit.Batch, data []byte) string {
	sum := sha256.Sum256(data)
	return fmt.Sprintf("%s%012d-%d-%s", AuditKeys(b.Entity), b.First, len(b.Lines), hex.EncodeToString(sum[:16]))
}

// ErrAuditChanged says that a blob of audit records is not what was written there.
var ErrAuditChanged = errors.New("somebody changed audit records in the store")

// WriteAudit stores records. It may be repeated. If it returns ErrAuditChanged, it has
// stored the records.
func WriteAudit(ctx context.Context, st *store.Store, b audit.Batch) error {
	if len(b.Lines) == 0 {
		return nil
	}
	data := []byte(strings.Join(b.Lines, "\n") + "\n")
	key := auditKey(b, data)
	err := st.Create(ctx, key, data)
	if !errors.Is(err, store.ErrExists) {
		return auditFailed(b.Entity, err)
	}
	there, err := st.Get(ctx, key)
	switch {
	case err == nil && string(there) == string(data):
		return nil
	case errors.Is(err, store.ErrUnreachable):
		return auditFailed(b.Entity, err)
	}
	// What is there stays, as evidence.
	if err := st.Create(ctx, key+"-again", data); err != nil && !errors.Is(err, store.ErrExists) {
		return auditFailed(b.Entity, err)
	}
	return fmt.Errorf("%s: %w", key, ErrAuditChanged)
}

func auditFailed(entity string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("store audit records of %.200q: %w", entity, err)
}

// ReadAudit returns the lines below an entity, in the order of their keys. Some are there
// more than once. Nothing of them is verified.
func ReadAudit(ctx context.Context, st *store.Store, below string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		prefix := AuditPrefix
		if below != "" {
			prefix = AuditKeys(below)
		}
		infos, err := st.List(ctx, prefix)
		if err != nil {
			yield("", fmt.Errorf("list audit records: %w", err))
			return
		}
		for _, info := range infos {
			data, err := st.Get(ctx, info.Key)
			if err != nil {
				yield("", fmt.Errorf("read audit records %s: %w", info.Key, err))
				return
			}
			for line := range strings.SplitSeq(strings.TrimSuffix(string(data), "\n"), "\n") {
				if !yield(line, nil) {
					return
				}
			}
		}
	}
}
