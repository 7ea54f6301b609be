package config

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

var (
	currencyPattern = regexp.MustCompile(`^[A-Za-z]{1,10}$`)
	modelPattern    = regexp.MustCompile(`^(\*|[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}\*?)$`)
)

const (
	maxPrices = 1000
	maxPrice  = 1_000_000 // of a million tokens
	// maxBodiesKeep bounds how long bodies are kept.
	maxBodiesKeep = 30 * 24 * time.Hour
)

func (c *Config) checkModels() (p []Problem) {
	add := func(key, format string, args ...any) { p = append(p, c.at(key, format, args...)) }
	m := c.Models
	if !currencyPattern.MatchString(m.Currency) {
		add("models.currency", "%q is no currency: up to ten letters, such as USD", shorten(m.Currency))
	}
	if m.Unknown != UnknownRefuse && m.Unknown != UnknownFree {
		add("models.unknown", "%q is neither refuse nor free", shorten(m.Unknown))
	}
	if b := m.Bodies; b.Keep < 0 || b.Keep > maxBodiesKeep || b.Bytes < 1<<10 || b.Bytes > 16<<20 || b.SessionBytes < 4*b.Bytes || b.SessionBytes > 4<<30 {
		add("models.bodies", "keep is between 0 and %s, bytes between 1024 and 16777216 (16 MiB), session_bytes between four times bytes and 4294967296 (4 GiB)", maxBodiesKeep)
	}
	if m.Bodies.Keep > 0 && c.Store.Tidy == 0 {
		add("models.bodies", "keep needs store.tidy, which deletes what is older")
	}
	if m.SessionRequests < 0 {
		add("models.session_requests", "it must not be negative")
	}
	if len(m.Prices) > maxPrices {
		add("models.prices", "it has %d models, at most %d", len(m.Prices), maxPrices)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Prices)) {
		price := m.Prices[name]
		if !modelPattern.MatchString(name) {
			add("models.prices", "%q is no name of a model, or the beginning of one and a star", shorten(name))
		}
		cached := price.Input
		if price.Cached != nil {
			cached = *price.Cached
		}
		for what, is := range map[string]float64{"input": price.Input, "cached": cached, "output": price.Output} {
			if math.IsNaN(is) || is < 0 || is > maxPrice {
				add("models.prices", "%s: %s: %v is not between 0 and %d, for a million tokens", shorten(name), what, is, maxPrice)
			}
		}
	}
	seen := map[ModelBudget]bool{}
	for i, b := range m.Budgets {
		key := fmt.Sprintf("models.budgets[%d]", i)
		of := ModelBudget{Seed: b.Seed, Tenant: b.Tenant}
		if (b.Seed == "") == (b.Tenant == "") {
			add(key, "name a seed or a tenant")
		} else if name := b.Seed + b.Tenant; !namePattern.MatchString(name) {
			add(key, "%q is no name of a seed or a tenant", shorten(name))
		}
		if seen[of] {
			add(key, "%s has another budget above", b.Seed+b.Tenant)
		}
		seen[of] = true
		if b.Every != "" && b.Every != "day" && b.Every != "month" {
			add(key, "every: %q is neither day nor month", shorten(b.Every))
		}
		money, err := protocol.ParseMoney(cmp.Or(b.Money, "0"))
		switch {
		case err != nil:
			add(key, "money: %v", err)
		case b.Tokens < 0 || b.Requests < 0:
			add(key, "tokens and requests must not be negative")
		case money == 0 && b.Tokens == 0 && b.Requests == 0:
			add(key, "it has none of money, tokens and requests")
		case money > 0 && len(m.Prices) == 0 && m.Unknown == UnknownRefuse:
			add(key, "a budget in money needs models.prices")
		}
	}
	return p
}
