package logins

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// KindChatGPT is the kind of seeds that a broker can serve.
const KindChatGPT = string(seeds.KindChatGPT)

// oldestBroker is the oldest codex that takes access tokens and does not write them to
// disk. Versions 0.125 to 0.147 write the tokens that answer a refresh into their log
// database, and 0.151 to 0.169 do not (measured).
const oldestBroker = "0.151.0"

const (
	// tokenWait is how long codex waits for a newer token, less the time of a round
	// trip.
	tokenWait = 9 * time.Second
	// loginWait is how long one attempt at a pump tries to get the token for a new
	// process.
	loginWait = 30 * time.Second
	// tokenRetry is the pause between two tries within these times. issuerRetry is the
	// pause if the last try asked the issuer.
	tokenRetry  = 500 * time.Millisecond
	issuerRetry = 3 * time.Second
	// soonOver is the remaining lifetime below which an access token is refreshed.
	soonOver = 5 * time.Minute
	// JustRefreshed is the age below which a refused token is not refreshed again: such
	// a token was not refused because of its age. codex asks up to six times in one
	// turn.
	JustRefreshed = 30 * time.Second
)

// CheckBroker refuses a session that a broker cannot serve, before anything of the
// session is on the host.
func CheckBroker(credentials string, seed *protocol.SeedRef) error {
	switch {
	case credentials != protocol.CredentialsBroker:
		return nil
	case seed == nil:
		return kit.BadInput("credentials of a broker need a seed")
	case seed.Kind != KindChatGPT:
		return kit.BadInput("seed %s is of kind %s: only a ChatGPT login has access tokens that a broker can give (leave --credentials broker out)", seed.Name, seed.Kind)
	}
	return nil
}

// CheckBrokerCodex refuses a codex that cannot log in with access tokens, or that would
// write them to disk.
func CheckBrokerCodex(credentials, version string) error {
	if credentials != protocol.CredentialsBroker {
		return nil
	}
	have, ok := kit.ParseVersion(version)
	low, _ := kit.ParseVersion(oldestBroker)
	if ok && !kit.Less(have, low) {
		return nil
	}
	return &kit.TypedError{Kind: protocol.ErrTypeCodexVersion, Hint: "put a newer codex there with `ctl host provision`, or leave --credentials broker out",
		Err: fmt.Errorf("codex %s writes the access tokens that it is given into its log database; --credentials broker needs %s or newer", version, oldestBroker)}
}

// A Brokering gives one pump's codex the access tokens of its seed. It reads them from
// the store and never refreshes: the seed's workflow does that.
type Brokering struct {
	Site    *site.Site
	desk    inquiry.TokenDesk
	session string
	seed    protocol.SeedRef
	hide    site.Secrets // each token given to codex is added
	// lost cancels the pump once the lease on the seed has ended; nil if the session
	// knows that already.
	lost func(error)

	mu      sync.Mutex
	renewed int64     // guarded by mu: the newest generation that this pump had refreshed
	at      time.Time // guarded by mu: when that was
	over    error     // guarded by mu: the final error, if any
}

// Broker returns nil for a session whose credential is planted.
func Broker(s *site.Site, session, credentials string, seed *protocol.SeedRef, unkept bool, hide site.Secrets, lost func(error)) *Brokering {
	if credentials != protocol.CredentialsBroker {
		return nil
	}
	b := &Brokering{Site: s, desk: s.Tokens, session: session, seed: *seed, hide: hide}
	if !unkept {
		b.lost = lost
	}
	return b
}

// SeedLost returns a Problem if the pump was cancelled because the lease on the seed
// has ended; otherwise nil.
func (b *Brokering) SeedLost() *protocol.Problem {
	if b == nil || b.lost == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !leaseEnded(b.over) {
		return nil
	}
	return &protocol.Problem{Kind: protocol.ErrTypeSeedFenced, Message: b.hide.All.String(b.over.Error()), Hint: "see `ctl seed show` for who holds it"}
}

// Asked returns the function that a pump calls for tokens; nil if there is no broker.
func (b *Brokering) Asked() conversation.Broker {
	if b == nil {
		return nil
	}
	return b.token
}

// token tries until codex would stop waiting. If the lease on the seed has ended, it
// does not answer, since that would fail the turn: it cancels the pump, which ends ctx.
func (b *Brokering) token(ctx context.Context, ask conversation.TokenAsk) (conversation.Token, error) {
	wait := tokenWait
	if ask.Have == 0 && ask.Reason == "" {
		wait = loginWait
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		t, err := b.try(ctx, ask)
		if err == nil {
			return t, nil
		}
		code := tokenCode(err)
		if code == conversation.TokenLater && ctx.Err() == nil {
			pause := tokenRetry
			if errors.As(err, new(*temporal.ApplicationError)) {
				pause = issuerRetry // the issuer was asked, and refused for now
			}
			select {
			case <-time.After(pause):
				continue
			case <-ctx.Done():
			}
		}
		if b.lost != nil && leaseEnded(err) {
			b.lost(err)
			<-ctx.Done()
		}
		b.Site.Logger.Warn("no access token for codex", "session", b.session, "seed", b.seed.Name, "error", err)
		return conversation.Token{}, &conversation.TokenError{Code: code, Err: err}
	}
}

var (
	errTaken        = errors.New("the seed is held by somebody else by now")
	errOtherAccount = errors.New("it is another account's by now")
)

// leaseEnded reports whether err says that the session has no lease on its seed.
func leaseEnded(err error) bool {
	var app *temporal.ApplicationError
	return errors.Is(err, errTaken) || errors.As(err, &app) && app.Type() == protocol.RefusedFenced
}

func tokenCode(err error) int {
	var app *temporal.ApplicationError
	switch {
	case leaseEnded(err) || errors.Is(err, errOtherAccount):
		return conversation.TokenTaken
	case !errors.As(err, &app):
	case app.Type() == protocol.RefusedDead:
		return conversation.TokenDead
	case app.Type() == protocol.RefusedLost || app.Type() == protocol.RefusedSuspect:
		return conversation.TokenDoubtful
	}
	return conversation.TokenLater
}

// try calls get and remembers a final error. codex asks many times, and a second
// request to the issuer about a dead login would only hide the first error.
func (b *Brokering) try(ctx context.Context, ask conversation.TokenAsk) (conversation.Token, error) {
	b.mu.Lock()
	over := b.over
	b.mu.Unlock()
	if over != nil {
		return conversation.Token{}, over
	}
	t, err := b.get(ctx, ask)
	if err != nil && tokenCode(err) != conversation.TokenLater {
		b.mu.Lock()
		b.over = err
		b.mu.Unlock()
	}
	return t, err
}

func (b *Brokering) get(ctx context.Context, ask conversation.TokenAsk) (conversation.Token, error) {
	none := conversation.Token{}
	now, err := b.desk.Now(ctx, b.seed.Name)
	if err != nil {
		return none, fmt.Errorf("ask for the newest generation of seed %s: %w", b.seed.Name, err)
	}
	if now.Holders[b.session] != b.seed.Epoch {
		return none, fmt.Errorf("seed %s: %w", b.seed.Name, errTaken)
	}
	access, err := b.access(ctx, now)
	if err != nil {
		return none, err
	}
	if b.Spent(access, now, ask) {
		if now, err = b.desk.Refresh(ctx, b.seed.Name, inquiry.RefreshSeed{Holder: b.session, Epoch: b.seed.Epoch, From: now.Generation}); err != nil {
			return none, fmt.Errorf("refresh seed %s: %w", b.seed.Name, err)
		}
		b.Made(now.Generation)
		if access, err = b.access(ctx, now); err != nil {
			return none, err
		}
	}
	if ask.Account != "" && ask.Account != access.Account {
		// codex would end all its work if it got a token of another account.
		return none, fmt.Errorf("seed %s: %w", b.seed.Name, errOtherAccount)
	}
	return conversation.NewToken(access.Token.Reveal(), access.Account, access.Plan, now.Generation), nil
}

// Spent reports whether a token is of no use: codex was refused with it, or it expires
// soon.
func (b *Brokering) Spent(a seeds.Access, now inquiry.SeedNow, ask conversation.TokenAsk) bool {
	switch {
	case b.justMade(now.Generation):
		return false
	case ask.Reason != "" && ask.Have >= now.Generation:
		return true
	}
	return !a.Expires.IsZero() && a.Expires.Sub(b.Site.Now()) < soonOver
}

// Made records the new generation of a refresh that this pump asked for, and the time.
// justMade reports whether a generation was recorded less than JustRefreshed ago.
func (b *Brokering) Made(generation int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.renewed, b.at = generation, b.Site.Now()
}

func (b *Brokering) justMade(generation int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.renewed == generation && b.Site.Now().Sub(b.at) < JustRefreshed
}

// access reads a generation from the store and hides its secrets from now on.
func (b *Brokering) access(ctx context.Context, now inquiry.SeedNow) (seeds.Access, error) {
	bundle, err := b.Site.Bundle(ctx, now.Ref)
	if err == nil && bundle == nil {
		err = &kit.SeedError{Name: b.seed.Name, Err: errors.New("it has no generation")}
	}
	if err != nil {
		return seeds.Access{}, err
	}
	b.hide.Add(bundle.Auth())
	return seeds.AccessOf(bundle)
}
