package activities

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/seeds"
)

// How a session's codex gets its credential.
const (
	// CredentialsPlanted: auth.json lies on the host while the session lives.
	CredentialsPlanted = "planted"
	// CredentialsBroker: the host gets no auth.json. Pumps give codex a
	// short-lived access token, which it keeps in its memory.
	CredentialsBroker = "broker"
)

// KindChatGPT is the kind of seeds that a broker can serve.
const KindChatGPT = string(seeds.KindChatGPT)

// oldestBroker is the oldest codex that takes access tokens and does not write
// them down: 0.147 and older put the ones they get in answer to a refresh into
// their log database (measured: 0.125 to 0.147 do, 0.151 to 0.169 do not).
const oldestBroker = "0.151.0"

const (
	// tokenWait is how long codex waits for a newer token, less what the way
	// there and back takes.
	tokenWait = 9 * time.Second
	// loginWait is how long a pump tries to get the token for a new process
	// before another attempt does.
	loginWait = 30 * time.Second
	// tokenRetry is the pause between two tries within these.
	tokenRetry  = 500 * time.Millisecond
	issuerRetry = 3 * time.Second
	// soonOver is when an access token is too old to begin with.
	soonOver = 5 * time.Minute
	// justRefreshed is how new a token is that is not refreshed again although
	// it was refused: it was not its age then. codex asks up to six times for
	// one turn.
	justRefreshed = 30 * time.Second
)

// checkBroker refuses what cannot be had with a broker, before anything of a
// session is on the host.
func checkBroker(credentials string, seed *SeedRef) error {
	switch {
	case credentials != CredentialsBroker:
		return nil
	case seed == nil:
		return badInput("credentials of a broker need a seed")
	case seed.Kind != KindChatGPT:
		return badInput("seed %s is of kind %s: only a ChatGPT login has access tokens that a broker can give (leave --credentials broker out)", seed.Name, seed.Kind)
	}
	return nil
}

// checkBrokerCodex refuses a codex that does not know such a login, or that
// would write it down.
func checkBrokerCodex(credentials, version string) error {
	if credentials != CredentialsBroker {
		return nil
	}
	have, ok := parseVersion(version)
	low, _ := parseVersion(oldestBroker)
	if ok && !less(have, low) {
		return nil
	}
	return &typedError{kind: ErrTypeCodexVersion, hint: "put a newer codex there with `ctl host provision`, or leave --credentials broker out",
		err: fmt.Errorf("codex %s writes the access tokens that it is given into its log database; --credentials broker needs %s or newer", version, oldestBroker)}
}

// A tokenDesk is where the workflows of seeds are asked for newer tokens.
type tokenDesk interface {
	now(ctx context.Context, seed string) (SeedNow, error)
	refresh(ctx context.Context, seed string, what RefreshSeed) (SeedNow, error)
}

// temporalTokens is the desk at which the real workflows sit.
type temporalTokens struct{ client client.Client }

func (d temporalTokens) now(ctx context.Context, seed string) (SeedNow, error) {
	return askSeed(ctx, d.client, seed)
}

func (d temporalTokens) refresh(ctx context.Context, seed string, what RefreshSeed) (SeedNow, error) {
	return updateSeed(ctx, d.client, seed, UpdateRefreshSeed, what)
}

// A brokering gives one pump's codex the access tokens of its seed. It reads
// them from the store and never refreshes: that is for the seed's workflow.
type brokering struct {
	*site
	desk    tokenDesk
	session string
	seed    SeedRef
	hide    secrets // learns what is given

	mu      sync.Mutex
	renewed int64     // guarded by mu: the newest generation that this pump had made
	at      time.Time // guarded by mu: when
	over    error     // guarded by mu: why there is no use in asking again
}

// broker is nil for a session whose host has the credential.
func (s *site) broker(in RunPumpInput, hide secrets) *brokering {
	if in.Credentials != CredentialsBroker {
		return nil
	}
	return &brokering{site: s, desk: s.tokens, session: in.Claim.Session, seed: *in.Seed, hide: hide}
}

// asked is what a pump asks; nil where there is no broker.
func (b *brokering) asked() conversation.Broker {
	if b == nil {
		return nil
	}
	return b.token
}

// token tries until codex would wait no longer.
func (b *brokering) token(ctx context.Context, ask conversation.TokenAsk) (conversation.Token, error) {
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
				pause = issuerRetry // the issuer was asked, and said not now
			}
			select {
			case <-time.After(pause):
				continue
			case <-ctx.Done():
			}
		}
		b.Logger.Warn("no access token for codex", "session", b.session, "seed", b.seed.Name, "error", err)
		return conversation.Token{}, &conversation.TokenError{Code: code, Err: err}
	}
}

var errTaken = errors.New("the seed is held by somebody else by now")

func tokenCode(err error) int {
	var app *temporal.ApplicationError
	switch {
	case errors.Is(err, errTaken):
		return conversation.TokenTaken
	case !errors.As(err, &app):
	case app.Type() == RefusedFenced:
		return conversation.TokenTaken
	case app.Type() == RefusedDead:
		return conversation.TokenDead
	case app.Type() == RefusedLost || app.Type() == RefusedSuspect:
		return conversation.TokenDoubtful
	}
	return conversation.TokenLater
}

// try remembers what is final: codex asks again and again, and asking an issuer
// again of a login that is over would only blur why it is.
func (b *brokering) try(ctx context.Context, ask conversation.TokenAsk) (conversation.Token, error) {
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

func (b *brokering) get(ctx context.Context, ask conversation.TokenAsk) (conversation.Token, error) {
	none := conversation.Token{}
	now, err := b.desk.now(ctx, b.seed.Name)
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
	if b.spent(access, now, ask) {
		if now, err = b.desk.refresh(ctx, b.seed.Name, RefreshSeed{Holder: b.session, Epoch: b.seed.Epoch, From: now.Generation}); err != nil {
			return none, fmt.Errorf("refresh seed %s: %w", b.seed.Name, err)
		}
		b.made(now.Generation)
		if access, err = b.access(ctx, now); err != nil {
			return none, err
		}
	}
	if ask.Account != "" && ask.Account != access.Account {
		// codex would end all that it does.
		return none, fmt.Errorf("seed %s: %w: it is another account's", b.seed.Name, errTaken)
	}
	return conversation.NewToken(access.Token.Reveal(), access.Account, access.Plan, now.Generation), nil
}

// spent says whether a token does no more: it is the one that codex was refused
// with, or will be over soon.
func (b *brokering) spent(a seeds.Access, now SeedNow, ask conversation.TokenAsk) bool {
	switch {
	case b.justMade(now.Generation):
		return false
	case ask.Reason != "" && ask.Have >= now.Generation:
		return true
	}
	return !a.Expires.IsZero() && a.Expires.Sub(b.Now()) < soonOver
}

// made notes that a generation came of a refresh; justMade says whether it was a
// moment ago.
func (b *brokering) made(generation int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.renewed, b.at = generation, b.Now()
}

func (b *brokering) justMade(generation int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.renewed == generation && b.Now().Sub(b.at) < justRefreshed
}

// access reads a generation from the store; what is in it is hidden from now on.
func (b *brokering) access(ctx context.Context, now SeedNow) (seeds.Access, error) {
	bundle, err := b.bundle(ctx, now.Ref)
	if err == nil && bundle == nil {
		err = &seedError{b.seed.Name, errors.New("it has no generation")}
	}
	if err != nil {
		return seeds.Access{}, err
	}
	b.hide.add(bundle.Auth())
	return seeds.AccessOf(bundle)
}
