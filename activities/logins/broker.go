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

// oldestBroker is the oldest codex that does not write access tokens to disk. Versions
// 0.125 to 0.147 write the tokens that answer a refresh into their log database, and 0.151
// to 0.169 do not (measured).
const oldestBroker = "0.151.0"

const (
	// tokenWait is how long codex waits for a newer token, less a round trip.
	tokenWait = 9 * time.Second
	// loginWait bounds one attempt to get the token for a new process.
	loginWait = 30 * time.Second
	// tokenRetry is the pause between tries, issuerRetry that after a try that asked the
	// issuer.
	tokenRetry  = 500 * time.Millisecond
	issuerRetry = 3 * time.Second
	// soonOver is the remaining lifetime below which an access token is refreshed.
	soonOver = 5 * time.Minute
	// JustRefreshed is the age up to which a refused token is not refreshed: its age is not
	// the cause. codex asks up to six times in one turn.
	JustRefreshed = 30 * time.Second
)

// CheckBroker refuses a session that a broker cannot serve. It is called before anything of
// the session is on the host.
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

// CheckBrokerCodex refuses a codex that cannot log in with access tokens, or that writes
// them to disk.
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

// A Brokering gives a pump's codex the access tokens of its seed. It reads them from the
// store. Only the seed's workflow refreshes.
type Brokering struct {
	Site    *site.Site
	desk    inquiry.TokenDesk
	session string
	seed    protocol.SeedRef
	hide    site.Secrets // gets each token given to codex
	// lost cancels the pump when the lease on the seed has ended; nil if the session knows
	// that.
	lost func(error)

	mu      sync.Mutex
	renewed int64     // guarded by mu: generation of the last refresh that this pump asked for
	at      time.Time // guarded by mu: when
	over    error     // guarded by mu: the final error
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

// SeedLost returns a Problem if the pump was cancelled for the lost lease.
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

// Asked returns what a pump calls for tokens; nil without a broker.
func (b *Brokering) Asked() conversation.Broker {
	if b == nil {
		return nil
	}
	return b.token
}

// token tries for as long as codex waits. If the lease has ended, an answer would fail the
// turn: token cancels the pump, which ends ctx, and waits for that.
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
				pause = issuerRetry // the issuer refused for now
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
	errTaken        = errors.New("this session no longer holds the seed")
	errOtherAccount = errors.New("the seed's login now belongs to another account than codex uses")
)

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

// try remembers a final error: the issuer's next answer about a dead login would hide the
// first.
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
		// A token of another account makes codex end all its work.
		return none, fmt.Errorf("seed %s: %w", b.seed.Name, errOtherAccount)
	}
	return conversation.NewToken(access.Token.Reveal(), access.Account, access.Plan, now.Generation), nil
}

// Spent reports whether codex was refused with a token, or the token expires soon.
func (b *Brokering) Spent(a seeds.Access, now inquiry.SeedNow, ask conversation.TokenAsk) bool {
	switch {
	case b.justMade(now.Generation):
		return false
	case ask.Reason != "" && ask.Have >= now.Generation:
		return true
	}
	return !a.Expires.IsZero() && a.Expires.Sub(b.Site.Now()) < soonOver
}

// Made records the generation of a refresh that this pump asked for.
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

// access hides the secrets of a generation from now on.
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
