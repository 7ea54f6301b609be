package site

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/seeds"
)

// Secret answers never enter a workflow. The worker's API seals them into the store, a
// decision names the blob, and the delivering pump reads it. codex may repeat the answers,
// so a sealed copy stays for redaction until the session is closed and no host has anything
// of it.
const (
	// AnswersPrefix is for answers that wait for a pump.
	AnswersPrefix = "answers/"
	// ToldPrefix is for copies for redaction.
	ToldPrefix = "told/"
	// AnswersKept is how long undelivered answers wait.
	AnswersKept = 45 * 24 * time.Hour
)

// SecretAnswers checks answers against a request's questions, except those in apart, and
// returns them in codex's form.
func SecretAnswers(r protocol.Request, answers map[string][]string, apart []string) (map[string][]string, error) {
	rest := slices.DeleteFunc(slices.Clone(r.Questions), func(q protocol.Question) bool { return slices.Contains(apart, q.ID) })
	if len(rest) == 0 {
		return nil, errors.New("no question is left for them")
	}
	return conversation.CheckAnswers(rest, answers)
}

// StoreAnswers seals answers to the request with that digest, and returns their name. Equal
// answers to one approval get the same name, so that several people can approve them;
// without the store's key it reveals nothing. Without an approval each call makes a new
// name.
func StoreAnswers(ctx context.Context, st *store.Store, session, digest, approval string, answers map[string][]string) (string, error) {
	data, err := json.Marshal(answers)
	if err != nil {
		return "", err
	}
	dir := AnswersPrefix + session + "/" + digest[:16] + "-"
	if approval == "" {
		key := dir + random16()
		return key, st.Create(ctx, key, data)
	}
	what, err := json.Marshal([]string{"answers", session, digest, approval, string(data)})
	if err != nil {
		return "", err
	}
	name, err := st.Name(what)
	if err != nil {
		return "", err
	}
	key := dir + name[:32]
	return key, st.Put(ctx, key, data)
}

func random16() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// FillAnswers reads the answers that are due, and keeps copies for redaction. Answers that
// are gone were delivered by an earlier attempt, as the journal shows.
func FillAnswers(ctx context.Context, s *Site, session string, sends []conversation.Send) error {
	for i := range sends {
		blob := sends[i].AnswersBlob
		if blob == "" {
			continue
		}
		dir := AnswersPrefix + session + "/"
		name, ok := strings.CutPrefix(blob, dir)
		if !ok || name == "" || path.Base(name) != name {
			return kit.BadInput("decision %s: blob %q holds no answers to a request of this session", sends[i].ID, blob)
		}
		data, err := s.Store.Get(ctx, blob)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		var secret map[string][]string
		if err == nil {
			err = json.Unmarshal(data, &secret)
		}
		if err == nil {
			err = s.Store.Put(ctx, ToldPrefix+session+"/"+name, data)
		}
		if err != nil {
			return fmt.Errorf("read the answers of decision %s: %w", sends[i].ID, err)
		}
		all := map[string][]string{}
		for id, texts := range sends[i].Answers {
			all[id] = texts
		}
		for id, texts := range secret {
			all[id] = texts
		}
		sends[i].Answers = all
	}
	return nil
}

// DropAnswers deletes answers that codex has, or will never get.
func DropAnswers(ctx context.Context, s *Site, sends []conversation.Send, settled []protocol.Delivery, forget []string) {
	drop := slices.Clone(forget)
	for _, d := range settled {
		i := slices.IndexFunc(sends, func(x conversation.Send) bool { return x.ID == d.ID && x.AnswersBlob != "" })
		if i < 0 || d.State == protocol.Decided || d.State == protocol.Sent {
			continue
		}
		drop = append(drop, sends[i].AnswersBlob)
		if d.State == protocol.Void && !sends[i].Uncertain { // codex never saw them
			drop = append(drop, ToldPrefix+strings.TrimPrefix(sends[i].AnswersBlob, AnswersPrefix))
		}
	}
	for _, key := range drop {
		if err := s.Store.Delete(ctx, key); err != nil && !errors.Is(err, store.ErrNotFound) {
			s.Logger.Warn("answers that are done with stay in the store until the session is closed", "blob", key, "error", err)
		}
	}
}

// ForgetAnswers deletes the answers of a session that was closed on host. If another host
// may have something of the session, a snapshot may yet be made there, so the copies for
// redaction stay until pruning.
func ForgetAnswers(ctx context.Context, s *Site, session, host string) {
	for _, prefix := range []string{AnswersPrefix, ToldPrefix} {
		all, err := s.Store.List(ctx, prefix+session+"/")
		if prefix == ToldPrefix && len(all) > 0 {
			left, lerr := s.AskLeft(ctx)
			if err = errors.Join(err, lerr); lerr != nil || inquiry.LeftElsewhere(left, session, host) {
				all = nil
			}
		}
		for _, info := range all {
			err = errors.Join(err, s.Store.Delete(ctx, info.Key))
		}
		if err != nil {
			s.Logger.Warn("secret answers stay in the store", "session", session, "error", err)
		}
	}
}

// PruneAnswers deletes answers that ended sessions left or no decision used. It spares
// sessions that do not answer, and copies for redaction if the session may have left
// something on a host.
func PruneAnswers(ctx context.Context, s *Site, in protocol.PruneSnapshotsInput) error {
	if in.DryRun || in.Session != "" {
		return nil
	}
	runs := map[string]bool{}
	left, lerr := []inquiry.LeftThere(nil), error(nil)
	if told, err := s.Store.List(ctx, ToldPrefix); err != nil {
		return err
	} else if len(told) > 0 {
		if left, lerr = s.AskLeft(ctx); lerr != nil {
			s.Logger.Warn("what hides secret answers stays in the store", "error", lerr)
		}
	}
	for _, prefix := range []string{AnswersPrefix, ToldPrefix} {
		all, err := s.Store.List(ctx, prefix)
		if err != nil {
			return err
		}
		for _, info := range all {
			session, _, _ := strings.Cut(strings.TrimPrefix(info.Key, prefix), "/")
			if _, asked := runs[session]; !asked {
				now, err := s.AskSession(ctx, session)
				runs[session] = err != nil || now.Runs
			}
			if old := prefix == AnswersPrefix && s.Now().Sub(info.ModTime) > AnswersKept; runs[session] && !old {
				continue
			}
			if prefix == ToldPrefix && (lerr != nil || inquiry.LeftElsewhere(left, session, "")) {
				continue
			}
			if err := s.Store.Delete(ctx, info.Key); err != nil {
				return err
			}
		}
	}
	return nil
}

// HidingIn returns the secrets of a seed and of the claim's session.
func HidingIn(ctx context.Context, s *Site, c protocol.Claim, ref *protocol.SeedRef) (Secrets, error) {
	known, err := Hiding(ctx, s, ref)
	if err != nil || !c.Told {
		return known, err
	}
	told, err := told(ctx, s, c.Session)
	if err != nil {
		return Secrets{}, fmt.Errorf("read the secret answers that codex got: %w", err)
	}
	if len(told) == 0 {
		return known, nil
	}
	name := ""
	if ref != nil {
		name = ref.Name
	}
	return known.with(name, told), nil
}

// told returns the answers that codex got or will get.
func told(ctx context.Context, s *Site, session string) (found []seeds.Secret, err error) {
	for _, prefix := range []string{AnswersPrefix, ToldPrefix} {
		all, err := s.Store.List(ctx, prefix+session+"/")
		if err != nil {
			return nil, err
		}
		for _, info := range all {
			data, err := s.Store.Get(ctx, info.Key)
			if errors.Is(err, store.ErrNotFound) {
				continue // deleted meanwhile
			}
			var answers map[string][]string
			if err == nil {
				err = json.Unmarshal(data, &answers)
			}
			if err != nil {
				return nil, err
			}
			for _, texts := range answers {
				for _, text := range texts {
					found = append(found, seeds.NewSecret(text))
				}
			}
		}
	}
	return found, nil
}

// with returns a copy of s, which others may share, with more secrets.
func (s Secrets) with(seed string, more []seeds.Secret) Secrets {
	found := append(s.All.Secrets(), more...)
	return Secrets{All: seeds.NewRedactor(seed, found), Pump: conversation.NewRedactor(seeds.Forms(found)...), Auth: s.Auth, shared: &s}
}
