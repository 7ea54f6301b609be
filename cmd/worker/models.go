package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/spend"
)

// giveBackWait bounds how long a worker that stops gives back what it had reserved of budgets.
const giveBackWait = 10 * time.Second

// tariffOf returns what models cost.
func tariffOf(m config.Models) spend.Tariff {
	t := spend.Tariff{Currency: m.Currency, Unpriced: m.Unknown == config.UnknownFree, SessionRate: m.SessionRequests, Prices: spend.Prices{}, Budgets: map[spend.Account]spend.Limits{}}
	for name, p := range m.Prices {
		one := spend.Price{Input: p.Input, Cached: p.Input, Output: p.Output}
		if p.Cached != nil {
			one.Cached = *p.Cached
		}
		t.Prices[name] = one
	}
	for _, b := range m.Budgets {
		of := spend.Account{Kind: spend.Seed, Name: b.Seed}
		if b.Tenant != "" {
			of = spend.Account{Kind: spend.Tenant, Name: b.Tenant}
		}
		money, err := protocol.ParseMoney(cmp.Or(b.Money, "0"))
		if err != nil {
			continue // the config was checked
		}
		t.Budgets[of] = spend.Limits{Tokens: b.Tokens, Money: money, Every: spend.Period(b.Every), Rate: b.Requests}
	}
	return t
}

// A tariff is what the configuration says of models. It follows the file while the worker runs, so that a
// budget can be raised while sessions wait for it. It is safe for concurrent use.
type tariff struct {
	path   string
	log    *slog.Logger
	record func(audit.Record) // of changed budgets
	now    atomic.Pointer[spend.Tariff]
}

func newTariff(conf *config.Config, record func(audit.Record), log *slog.Logger) *tariff {
	t := &tariff{path: conf.Path(), log: log, record: record}
	first := tariffOf(conf.Models)
	t.now.Store(&first)
	return t
}

func (t *tariff) current() spend.Tariff { return *t.now.Load() }

// read takes the section models of the file, if the whole file is right. The rest of the file counts when
// the worker starts.
func (t *tariff) read(context.Context) error {
	conf, err := config.Load(t.path)
	if err != nil {
		return err
	}
	next := tariffOf(conf.Models)
	last := t.now.Swap(&next)
	for _, change := range budgetChanges(last.Budgets, next.Budgets) {
		t.log.Info("a budget was changed in the configuration", "of", change.Object, "change", change.Reason)
		t.record(change)
	}
	return nil
}

// budgetChanges returns the records of changed budgets.
func budgetChanges(last, next map[spend.Account]spend.Limits) (all []audit.Record) {
	accounts := map[spend.Account]bool{}
	for of := range last {
		accounts[of] = true
	}
	for of := range next {
		accounts[of] = true
	}
	for _, of := range slices.SortedFunc(maps.Keys(accounts), func(a, b spend.Account) int {
		return strings.Compare(a.Kind+"/"+a.Name, b.Kind+"/"+b.Name)
	}) {
		if last[of] != next[of] {
			all = append(all, audit.Record{Source: audit.Workflow, Verb: audit.BudgetChange, Object: of.Kind + "/" + of.Name, Outcome: audit.Accepted,
				Reason: fmt.Sprintf("by the configuration of this worker: %s instead of %s", limitsText(next[of]), limitsText(last[of]))})
		}
	}
	return all
}

func limitsText(l spend.Limits) string {
	var parts []string
	if l.Money > 0 {
		parts = append(parts, "money "+l.Money.String())
	}
	if l.Tokens > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens", l.Tokens))
	}
	if l.Rate > 0 {
		parts = append(parts, fmt.Sprintf("%d requests a minute", l.Rate))
	}
	if len(parts) == 0 {
		return "no budget"
	}
	text := strings.Join(parts, ", ")
	if l.Every != spend.Ever {
		text += ", every " + string(l.Every)
	}
	return text
}
