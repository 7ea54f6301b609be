package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"fairlead.dev/fairlead/internal/owned"
)

func folderOf(r *http.Request) (string, error) {
	folder := r.URL.Query().Get("folder")
	if _, ok := owned.OwnerOf(folder); !ok {
		return "", problem(http.StatusBadRequest, ErrBadInput, "folder=%.150q is not a folder name: use session.ID, batch.ID or schedule.NAME, then a dot and 16 fresh hex digits", folder)
	}
	return folder, nil
}

func inFolder(folder string) string { return url.Values{"folder": {folder}}.Encode() }

// putOwned names data by its content.
func (s *Server) putOwned(ctx context.Context, folder, family string, data []byte) (key string, err error) {
	key, err = s.opts.Store.PutContent(ctx, owned.In(folder, family), data)
	if err != nil {
		return "", storeProblem(err, "the store is gone")
	}
	return key, s.stays(ctx, folder)
}

// stays fails unless the folder's contents will be kept.
func (s *Server) stays(ctx context.Context, folder string) error {
	if err := owned.Kept(ctx, s.opts.Store, folder); err != nil {
		return ownedProblem(err)
	}
	return nil
}

func ownedProblem(err error) error {
	if errors.Is(err, owned.ErrGone) {
		return problem(http.StatusConflict, ErrRefused, "%v", err).hinted("the folder has expired, because nothing was stored in it for a week: start again with a new folder")
	}
	return storeProblem(err, "the store is gone")
}
