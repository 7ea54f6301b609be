package pumps

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/policy"
	"fairlead.dev/fairlead/internal/store"
)

// The model can make symbolic links in its work folder, so a path may lead elsewhere than
// its name says. If rules look at paths, the host says where they lead, and a request is
// accepted only if the rules accept it by name and by place. A link may still be changed
// between the verdict and codex's write.
//
// Links change, but every attempt of a pump must give the same verdict. So the first one is
// kept in the store.

// placesOf returns the paths whose places matter for a verdict.
func placesOf(all []*policy.Policy, in RunPumpInput, r policy.Request) (named []string) {
	for _, by := range askers(in) {
		r.Requester = by
		for _, p := range all {
			named = append(named, p.Places(r)...)
		}
	}
	slices.Sort(named)
	return slices.Compact(named)
}

// strictestOf returns the strictest verdict by where the paths lead.
func strictestOf(all []*policy.Policy, in RunPumpInput, r policy.Request, at map[string]policy.Place) policy.Verdict {
	views := r.Placed(at)
	verdict := decide(all, in, views[0])
	for _, view := range views[1:] {
		verdict = Stricter(verdict, decide(all, in, view))
	}
	return verdict
}

// VerdictKey names the verdict about the paths of a request. A pump that repeats one without
// a result has another number and the same prefix: it reads the same requests.
func VerdictKey(in RunPumpInput, request string) string {
	sum := sha256.Sum256([]byte(request))
	return fmt.Sprintf("verdicts/%s/%s-%s", in.Claim.Session, in.Pump.Prefix, hex.EncodeToString(sum[:16]))
}

// decidePlaced makes the verdict by name as strict as the one by place, and keeps it.
func decidePlaced(ctx context.Context, s *site.Site, in RunPumpInput, attempt int32, request string, all []*policy.Policy, r policy.Request, byName policy.Verdict, named []string) policy.Verdict {
	if kept, err := keptVerdict(ctx, s, in, request); err == nil {
		return kept
	} else if !errors.Is(err, store.ErrNotFound) {
		return unplaced(byName, fmt.Errorf("an earlier verdict cannot be read: %w", err))
	}
	at, err := whereOnHost(ctx, s, in, attempt, named)
	var verdict policy.Verdict
	switch {
	case errors.Is(err, hostexec.ErrFenced):
		return unplaced(byName, err) // a newer attempt decides
	case err != nil:
		verdict = unplaced(byName, err)
	default:
		verdict = placed(r, byName, strictestOf(all, in, r, at), at)
	}
	data, err := json.Marshal(verdict)
	if err == nil {
		err = s.Store.Create(ctx, VerdictKey(in, request), data)
	}
	if errors.Is(err, store.ErrExists) {
		var kept policy.Verdict
		if kept, err = keptVerdict(ctx, s, in, request); err == nil {
			return kept
		}
	}
	if err != nil {
		return unplaced(byName, fmt.Errorf("the verdict cannot be kept: %w", err))
	}
	return verdict
}

func keptVerdict(ctx context.Context, s *site.Site, in RunPumpInput, request string) (v policy.Verdict, err error) {
	data, err := s.Store.Get(ctx, VerdictKey(in, request))
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	return v, err
}

func whereOnHost(ctx context.Context, s *site.Site, in RunPumpInput, attempt int32, named []string) (map[string]policy.Place, error) {
	h, err := s.Host(in.Claim.Host)
	if err != nil {
		return nil, err
	}
	fence := folder.FenceOf(in.Claim, in.Layout.Dir, attempt)
	real, err := hostexec.ResolvePaths(ctx, h, named, &fence)
	if err != nil {
		return nil, err
	}
	at := make(map[string]policy.Place, len(real))
	for p, r := range real {
		at[p] = policy.Place{Entry: r.Entry, Target: r.Target}
	}
	return at, nil
}

// unplaced asks people: nobody knows where the paths lead.
func unplaced(byName policy.Verdict, err error) policy.Verdict {
	why := "where its paths lead is unknown: " + err.Error()
	if strictness(byName.Outcome) > strictness(policy.Ask) {
		why = fmt.Sprintf("rule %q would accept, but %s", byName.Rule, why)
	}
	return policy.Verdict{Outcome: policy.Ask, Rule: policy.RulePlace, Reason: why, Policy: byName.Policy}
}

// placed returns the stricter verdict. If people are asked only because of the places, the
// reason says so.
func placed(r policy.Request, byName, byPlace policy.Verdict, at map[string]policy.Place) policy.Verdict {
	v := Stricter(byName, byPlace)
	if v.Outcome == policy.AcceptForSession && !stays(r, at) {
		v.Outcome = policy.Accept
	}
	if v.Outcome != policy.Ask || strictness(byName.Outcome) <= strictness(policy.Ask) {
		return v
	}
	v.Reason = fmt.Sprintf("rule %q would accept by name, but not by where the paths lead on the host%s; for these, rule %q asks a person", byName.Rule, example(at), byPlace.Rule)
	v.Rule = policy.RulePlace
	return v
}

// stays reports whether no link that the model can make changes what an accept for the
// session means: codex compares later requests by name.
func stays(r policy.Request, at map[string]policy.Place) bool {
	return r.Kind == policy.Command && at[r.CWD].Target != "" && at[r.CWD].Target == at[r.Work].Target
}

func example(at map[string]policy.Place) string {
	var led []string
	for p, where := range at {
		if path.Clean(p) != where.Target || path.Clean(p) != where.Entry {
			led = append(led, p)
		}
	}
	if len(led) == 0 {
		return ""
	}
	first := slices.Min(led)
	return fmt.Sprintf(" (%.150q is %.150q)", first, at[first].Target)
}
