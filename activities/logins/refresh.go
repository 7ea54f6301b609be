package logins

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/seeds"
)

// RefreshSeedInput is the input of RefreshSeed.
type RefreshSeedInput struct {
	Seed protocol.SeedRef `json:"seed"`
	// Force, from a person and new each time, has a token used that may be used up.
	Force string `json:"force,omitempty"`
	// With Look, no token is used: only an answer that an earlier refresh stored is taken.
	Look bool `json:"look,omitempty"`
	// Account also has the account of the new login read. Its holder must not wait for that.
	Account bool `json:"account,omitempty"`
}

// RefreshSeedResult is the outcome. Saved, only with the verdict alive, names a stored
// bundle that is no generation yet.
type RefreshSeedResult struct {
	SeedVerdict
	Saved *protocol.SeedRef   `json:"saved,omitempty"`
	Auth  string              `json:"auth,omitempty"` // SHA-256 of its auth.json, hex
	Files []protocol.SeedFile `json:"files,omitempty"`
	// Asked is false if an earlier attempt's answer was found.
	Asked   bool                  `json:"asked"`
	Account *protocol.SeedAccount `json:"account,omitempty"`
}

// SeedVerdict is what is known of a seed: alive, dead, suspect, unknown, lost (its refresh
// token may be used up) or fresh (nobody was asked).
type SeedVerdict struct {
	Verdict    string        `json:"verdict"`
	Reason     string        `json:"reason,omitempty"`
	Hint       string        `json:"hint,omitempty"`
	RetryAfter time.Duration `json:"retry_after,omitempty"`
}

func verdictOf(a seeds.Answer) SeedVerdict {
	return SeedVerdict{Verdict: string(a.Verdict), Reason: a.Reason, Hint: a.Hint, RetryAfter: a.RetryAfter}
}

func issuer(s *site.Site) seeds.Issuer {
	return seeds.Issuer{TokenURL: s.TokenEndpoint, URL: s.Issuer, UsageURL: s.UsageEndpoint, Now: s.Now}
}

// RefreshSeed uses a login's refresh token a single time. It stores that intent before the
// request, and the new login before it ends. The attempt after a killed one finds the
// answer, or that the token may be used up: then only a person's Force uses it again. Only
// an answer that was on its way when this process died is lost.
func (s *Activities) RefreshSeed(ctx context.Context, in RefreshSeedInput) (RefreshSeedResult, error) {
	out, err := RefreshSeed(ctx, s.Site, in)
	return out, kit.Failing{}.Failure(ctx, "refresh seed "+in.Seed.Name, err)
}

// RefreshSeed does the work of the activity of that name.
func RefreshSeed(ctx context.Context, s *site.Site, in RefreshSeedInput) (RefreshSeedResult, error) {
	var out RefreshSeedResult
	seed, err := s.Bundle(ctx, &in.Seed)
	if err != nil {
		return out, err
	}
	if seed.Kind() != seeds.KindChatGPT {
		return out, kit.BadInput("seed %s is of kind %s: it has nothing to refresh", in.Seed.Name, seed.Kind())
	}
	done, err := s.Alone(ctx, "refresh "+in.Seed.Name)
	if err != nil {
		return out, err
	}
	defer done()
	spent := seeds.AuthDigest(seed.Auth())
	if v, err := overtaken(ctx, s, in, seed); err != nil || v != nil {
		if v != nil {
			out.SeedVerdict = *v
		}
		return out, err
	}
	ref, b, err := seeds.LoadRefreshed(ctx, s.Store, in.Seed.Name, in.Seed.Generation+1, spent)
	if err != nil {
		return out, &kit.SeedError{Name: in.Seed.Name, Err: err}
	}
	if b != nil {
		out.take(ref, b)
		out.Account = accountOf(ctx, s, in, b)
		return out, nil
	}
	if in.Look {
		out.SeedVerdict = SeedVerdict{Verdict: string(seeds.VerdictUnknown), Reason: "the seed is suspect, and its refresh token is not used unless a person asks for that",
			Hint: fmt.Sprintf("`ctl seed verify %s --force` asks its issuer, which burns the login if somebody else has used it", in.Seed.Name)}
		return out, nil
	}
	intent, err := seeds.Intend(ctx, s.Store, in.Seed.Name, spent, in.Force)
	if errors.Is(err, store.ErrNotExclusive) {
		out.SeedVerdict = SeedVerdict{Verdict: string(seeds.VerdictUnknown), Reason: "it was not refreshed: " + err.Error(),
			Hint: kit.NotExclusiveHint}
		return out, nil
	}
	if err != nil {
		return out, err
	}
	if intent == nil {
		out.SeedVerdict = SeedVerdict{Verdict: string(seeds.VerdictLost),
			Reason: "a refresh of it was begun and its answer is not known: its refresh token may be spent",
			Hint:   fmt.Sprintf("`ctl seed verify %s --force` tries it once more, which burns the login if it is spent; or log in anew and import it", in.Seed.Name)}
		return out, nil
	}
	return askIssuer(ctx, s, in, seed, spent, intent), nil
}

// overtaken returns a verdict if the store has a later login that was made from this one. The stored
// answer to a refresh of this login does not count: RefreshSeed takes that one itself. Force overrides
// only a doubt.
func overtaken(ctx context.Context, s *site.Site, in RefreshSeedInput, seed *seeds.Bundle) (*SeedVerdict, error) {
	ref := in.Seed
	ahead, err := lookForDoubt(ctx, s, ref, seed)
	own := ahead.Newest == nil || seeds.Answers(*ahead.Newest, ref.Generation+1, seed)
	if err != nil || own && (ahead.Doubt == "" || in.Force != "") {
		return nil, err
	}
	return &SeedVerdict{Verdict: string(seeds.VerdictLost), Hint: hintRestored,
		Reason: fmt.Sprintf("it is at generation %d, and %s", ref.Generation, behind(ahead, ref.Generation))}, nil
}

// askIssuer cannot be stopped, except with the process: a cancelled activity, too, stores a
// new login.
func askIssuer(ctx context.Context, s *site.Site, in RefreshSeedInput, seed *seeds.Bundle, spent string, intent *seeds.Intent) RefreshSeedResult {
	held := context.WithoutCancel(ctx)
	answer, next := issuer(s).Refresh(held, seed)
	out := RefreshSeedResult{SeedVerdict: verdictOf(answer), Asked: true}
	switch answer.Verdict {
	case seeds.VerdictAlive:
		insist(held, s, "seed "+in.Seed.Name+" was refreshed and is not saved yet", func(ctx context.Context) error {
			ref, err := seeds.SaveRefreshed(ctx, s.Store, in.Seed.Name, in.Seed.Generation+1, spent, next)
			if err == nil {
				out.take(ref, next)
			}
			return err
		})
		out.Account = accountOf(ctx, s, in, next)
	case seeds.VerdictUnknown:
		// The token was not used up. Record that as reliably as the intent.
		insist(held, s, "seed "+in.Seed.Name+" was not refreshed, and that cannot be written down", func(ctx context.Context) error {
			return intent.Withdraw(ctx, s.Store)
		})
	}
	return out
}

const storeTry = time.Minute

// insist repeats do until it succeeds. Beats sends the activity's heartbeats.
func insist(ctx context.Context, s *site.Site, what string, do func(context.Context) error) {
	for n := int32(1); ; n++ {
		try, cancel := context.WithTimeout(ctx, storeTry)
		err := do(try)
		cancel()
		if err == nil {
			return
		}
		s.Logger.Error(what, "err", err)
		time.Sleep(kit.NextTry(n, 0))
	}
}

func (r *RefreshSeedResult) take(ref seeds.Ref, b *seeds.Bundle) {
	r.Verdict, r.Reason, r.Hint = string(seeds.VerdictAlive), "", ""
	r.Saved = &protocol.SeedRef{Name: ref.Name, Generation: ref.Generation, Blob: ref.Blob, Digest: ref.Digest, Kind: string(ref.Kind)}
	r.Auth, r.Files = seeds.AuthDigest(b.Auth()), filesOf(b)
}

// VerifySeedInput is the input of VerifySeed.
type VerifySeedInput struct {
	Seed protocol.SeedRef `json:"seed"`
}

// VerifySeedResult is what VerifySeed found.
type VerifySeedResult struct {
	SeedVerdict
	// Until is when the access token expires, by its own claims.
	Until   time.Time             `json:"until,omitzero"`
	Account *protocol.SeedAccount `json:"account,omitempty"`
}

// readUsage bounds the time to read the usage of a login. No verdict depends on the usage.
const readUsage = 10 * time.Second

// accountOf returns the account of a refreshed login, if it is asked for.
func accountOf(ctx context.Context, s *site.Site, in RefreshSeedInput, b *seeds.Bundle) *protocol.SeedAccount {
	if !in.Account {
		return nil
	}
	return account(ctx, s, in.Seed.Name, b)
}

// account returns who a login belongs to and, if the provider answers, what is used of it.
func account(ctx context.Context, s *site.Site, name string, b *seeds.Bundle) *protocol.SeedAccount {
	out := seeds.AccountOf(b)
	if out == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readUsage)
	defer cancel()
	limits, err := issuer(s).Usage(ctx, b)
	if err != nil {
		s.Logger.Info("the usage of a login is not known", "seed", name, "err", err)
		return out
	}
	out.Read(protocol.SeedAccount{Plan: limits.Plan, Limits: limits}, s.Now())
	return out
}

// VerifySeed reads what a login's tokens say and how much of it is used, or asks whether a
// key is accepted. It changes nothing.
func (s *Activities) VerifySeed(ctx context.Context, in VerifySeedInput) (VerifySeedResult, error) {
	out, err := VerifySeed(ctx, s.Site, in)
	return out, kit.Failing{}.Failure(ctx, "verify seed "+in.Seed.Name, err)
}

// VerifySeed does the work of the activity of that name.
func VerifySeed(ctx context.Context, s *site.Site, in VerifySeedInput) (VerifySeedResult, error) {
	seed, err := s.Bundle(ctx, &in.Seed)
	if err != nil {
		return VerifySeedResult{}, err
	}
	if seed.Kind() == seeds.KindChatGPT {
		answer, until := issuer(s).Fresh(seed)
		out := VerifySeedResult{SeedVerdict: verdictOf(answer), Until: until, Account: seeds.AccountOf(seed)}
		if until.After(s.Now()) {
			out.Account = account(ctx, s, in.Seed.Name, seed)
		}
		return out, nil
	}
	return VerifySeedResult{SeedVerdict: verdictOf(issuer(s).Ask(ctx, seed))}, nil
}
