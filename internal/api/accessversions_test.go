package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/store"
)

func TestTheAccessFilesThatWereInForceAreShownToThoseWhoMayReadThem(t *testing.T) {
	texts := []string{"the first", "the second"}
	digest := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:])
	}
	var blobs *store.Store
	c := lockedBench(t, func(o *Options) {
		blobs = o.Store
		o.Status = func() Status {
			return Status{Identity: "w/1 unix:///x", Access: &authority.Standing{Digest: digest(texts[1])}}
		}
	})
	for _, text := range texts {
		if err := blobs.Create(context.Background(), records.AccessKey(digest(text)), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := blobs.Create(context.Background(), records.AccessKey(strings.Repeat("0", 64)), []byte("changed")); err != nil {
		t.Fatal(err)
	}
	list, err := c.as("ann").AccessVersions(t.Context())
	if err != nil || len(list) != 3 {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, v := range list {
		if (v.InForce == "w/1 unix:///x") != (v.Digest == digest(texts[1])) || v.KeptAt.IsZero() {
			t.Errorf("it lists %+v", v)
		}
	}
	for _, text := range texts {
		if data, err := c.as("ann").AccessVersion(t.Context(), digest(text)); err != nil || string(data) != text {
			t.Errorf("%s is %q, %v", text, data, err)
		}
	}
	if _, err := c.as("ann").AccessVersion(t.Context(), strings.Repeat("0", 64)); err == nil || !strings.Contains(err.Error(), "digest differs") {
		t.Errorf("a file that is not the one it should be: %v", err)
	}
	if _, err := c.as("ann").AccessVersion(t.Context(), strings.Repeat("1", 64)); errorKind(err) != ErrNotFound {
		t.Errorf("a file that never was: %v", err)
	}
	if _, err := c.as("vic").AccessVersions(t.Context()); errorKind(err) != ErrForbidden {
		t.Errorf("a viewer: %v", err)
	}
}
