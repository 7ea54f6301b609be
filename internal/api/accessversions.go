package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/access"
)

// An AccessVersion is an access file that was in force at some worker.
type AccessVersion struct {
	Digest string    `json:"digest"`  // SHA-256 of the file, in hex
	KeptAt time.Time `json:"kept_at"` // when a worker put it into the store: soon after it first came into force
	// InForce names the worker that was asked, if the file is in force there, and Since when
	// that worker read it.
	InForce string    `json:"in_force,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// maxAccessVersions bounds a list. The newest are shown.
const maxAccessVersions = 10_000

// accessVersions lists the access files in the store, the newest first.
func accessVersions(s *Server, w http.ResponseWriter, r *http.Request) {
	found, err := s.opts.Store.List(r.Context(), records.AccessPrefix)
	if err != nil {
		s.fail(w, storeProblem(err, "the store is gone"))
		return
	}
	st := s.opts.Status()
	list := []AccessVersion{}
	for _, info := range found {
		digest, ok := records.AccessDigest(info.Key)
		if !ok {
			continue
		}
		v := AccessVersion{Digest: digest, KeptAt: info.ModTime.UTC()}
		if st.Access != nil && st.Access.Digest == digest {
			v.InForce, v.Since = st.Identity, st.Access.Since
		}
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b AccessVersion) int {
		return cmp.Or(b.KeptAt.Compare(a.KeptAt), cmp.Compare(a.Digest, b.Digest))
	})
	s.reply(w, list[:min(len(list), maxAccessVersions)])
}

// accessVersion sends an access file as it was.
func accessVersion(s *Server, w http.ResponseWriter, r *http.Request) {
	digest := r.PathValue("digest")
	if !digestPattern.MatchString(digest) {
		s.fail(w, problem(http.StatusBadRequest, ErrBadInput, "%.100q is not a digest: 64 hex digits", digest))
		return
	}
	data, err := s.opts.Store.Get(r.Context(), records.AccessKey(digest))
	if err != nil {
		s.fail(w, storeProblem(err, "no access file %.12s… is in the store", digest))
		return
	}
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(data) // a client compares the digest
}

// AccessVersions lists the access files that were in force, the newest first.
func (c *Client) AccessVersions(ctx context.Context) (list []AccessVersion, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/access/versions", nil, &list)
	return list, err
}

// AccessVersion returns an access file. It has the digest.
func (c *Client) AccessVersion(ctx context.Context, digest string) ([]byte, error) {
	resp, err := c.send(ctx, http.MethodGet, "/v1/access/versions/"+digest, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, access.MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the access file %.12s… from the worker at %s: %w", digest, c.endpoint, err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != digest {
		return nil, fmt.Errorf("the worker at %s sent another access file than %.12s…: its digest differs", c.endpoint, digest)
	}
	return data, nil
}
