package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"fairlead.dev/fairlead/internal/owned"
)

// folderOf returns the folder that a request stores something in. That of a principal has the
// principal's tag, so that nobody else's commands can name what is in it.
func folderOf(r *http.Request) (string, error) {
	folder := r.URL.Query().Get("folder")
	if _, ok := owned.OwnerOf(folder); !ok {
		return "", problem(http.StatusBadRequest, ErrBadInput, "folder=%.150q is not a folder name: use session.ID, batch.ID or schedule.NAME, then a dot and 16 fresh hex digits", folder)
	}
	c := callerOf(r.Context())
	if c == nil {
		return folder, nil
	}
	mine, ok := owned.FolderOf(folder, c.principal)
	if !ok {
		return "", problem(http.StatusForbidden, ErrForbidden, "folder %.200q belongs to another principal than %s", folder, c.principal).hinted("use a new folder")
	}
	return mine, nil
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
