package session

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/conversation"
)

// checkWorkspace refuses a session that is to begin with more than one of a folder, a
// repository and a snapshot.
func (o Options) checkWorkspace() error {
	//workflowcheck:ignore // it parses URLs, which depends on nothing else
	err := o.Workspace.Check()
	if err != nil {
		return err
	}
	if (o.Workspace.Repo != nil || o.Workspace.Snapshot != "") && (o.Dir != "" || o.From != "") {
		return errors.New("more than one of a folder of the host, a repository and a snapshot is given for the work folder: give only one")
	}
	return nil
}

// cameToWork notes what is in the work folder now, and how the hooks went.
func (s *placePart) cameToWork(out places.PrepareSessionResult) {
	w := s.opt.Workspace
	if b := out.Brought; b != nil {
		s.st.Commit = b.Commit
		data := map[string]string{}
		text := ""
		switch {
		case w.Repo != nil:
			text = "cloned " + w.Repo.URL
			data["repo"], data["ref"], data["commit"] = w.Repo.URL, w.Repo.Ref, b.Commit
		case w.Snapshot != "":
			text = fmt.Sprintf("the work folder was made of %s: %d files, %d bytes", cmp.Or(w.Uploaded, w.Snapshot), b.Files, b.Bytes)
			data["snapshot"] = w.Snapshot
		}
		if text != "" {
			s.note(conversation.Note{Type: "state", Text: text, Data: data})
		}
		if len(b.Refused) > 0 {
			s.note(agentRefused(s.hostName(), b.Refused))
		}
		if b.Created != nil {
			s.note(b.Created.Note(w.Hooks.Timeout))
		}
	}
	if out.BeforeRun != nil {
		s.note(out.BeforeRun.Note(w.Hooks.Timeout))
	}
}

// agentRefused notes what a host asked a lent SSH agent for in vain.
func agentRefused(host string, refused []string) conversation.Note {
	return conversation.Note{Type: "state", Text: "the host asked the lent SSH agent for what it is not lent for, and was refused: " + strings.Join(refused, "; "),
		Data: map[string]string{"agent": "refused", "host": host}}
}

// placeView is for callers that only read.
func (s *placePart) placeView() workspaces.Place {
	p := workspaces.Place{Seed: s.st.Seed, Workspace: s.workspace(), Commit: s.st.Commit,
		Turn: s.st.TurnN, Busy: s.st.Running || s.st.Reap}
	if s.st.Layout != nil && s.st.Lease != nil {
		p.Claim, p.Layout = s.claim(), *s.st.Layout
	}
	return p
}
