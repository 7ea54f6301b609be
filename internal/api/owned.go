package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"fairlead.dev/fairlead/internal/owned"
)

// folderOf returns the folder parameter, which names the owner of the stored data.
func folderOf(r *http.Request) (string, error) {
	folder := r.URL.Query().Get("folder")
	if _, ok := owned.OwnerOf(folder); !ok {
		return "", problem(http.StatusBadRequest, ErrBadInput, "folder=%.150q is none: it names whom this is for, as session.ID, batch.ID or schedule.NAME, and .16 hex digits that are new", folder)
	}
	return folder, nil
}

func inFolder(folder string) string { return url.Values{"folder": {folder}}.Encode() }

// putOwned stores data in a folder under a name made of its content.
func (s *Server) putOwned(ctx context.Context, folder, family string, data []byte) (key string, err error) {
	key, err = s.opts.Store.PutContent(ctx, owned.In(folder, family), data)
	if err != nil {
		return "", storeProblem(err, "the store is gone")
	}
	return key, s.stays(ctx, folder)
}

// stays returns an error unless the folder's contents will be kept.
func (s *Server) stays(ctx context.Context, folder string) error {
	if err := owned.Kept(ctx, s.opts.Store, folder); err != nil {
		return ownedProblem(err)
	}
	return nil
}

func ownedProblem(err error) error {
	if errors.Is(err, owned.ErrGone) {
		return problem(http.StatusConflict, ErrRefused, "%v", err).hinted("nothing was put there for a week: begin anew, with another folder")
	}
	return storeProblem(err, "the store is gone")
}
