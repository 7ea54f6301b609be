package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/spend"
)

func TestABudgetIsRaisedByTheFileWhileTheWorkerRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	write := func(budgets string) {
		t.Helper()
		text := "store: {url: \"file:///var/lib/fairlead/store\"}\nmodels: {prices: {m1: {input: 1, output: 2}}, budgets: [" + budgets + "]}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("{seed: team, money: 5, every: day}, {tenant: payments, tokens: 1000}")
	conf, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	var told []audit.Record
	models := newTariff(conf, func(r audit.Record) { told = append(told, r) }, slog.New(slog.DiscardHandler))
	changing := newCredentials(slog.New(slog.DiscardHandler))
	changing.keep("models", models.read, conf.Path())
	team, payments := spend.Account{Kind: spend.Seed, Name: "team"}, spend.Account{Kind: spend.Tenant, Name: "payments"}

	write("{seed: team, money: 7.50, every: day}")
	changing.look(t.Context())
	now := models.current()
	if l := now.Budgets[team]; l.Money != 7_500_000 || l.Every != spend.Day {
		t.Errorf("the raised budget is %+v", l)
	}
	if _, ok := now.Budgets[payments]; ok || now.Prices["m1"].Output != 2 {
		t.Errorf("the tariff is %+v", now)
	}
	var texts []string
	for _, r := range told {
		texts = append(texts, strings.Join([]string{r.Verb, r.Object, r.Outcome, r.Reason}, " "))
	}
	for i, want := range []string{
		"budget.change seed/team accepted by the configuration of this worker: money 7.50, every day instead of money 5.00, every day",
		"budget.change tenant/payments accepted by the configuration of this worker: no budget instead of 1000 tokens",
	} {
		if len(texts) != 2 || texts[i] != want {
			t.Fatalf("on record: %q", texts)
		}
	}

	// A file with a mistake changes nothing.
	write("{seed: team, money: 900, every: week}")
	changing.look(t.Context())
	if l := models.current().Budgets[team]; l.Money != 7_500_000 || len(told) != 2 {
		t.Errorf("after a mistake: %+v, %d records", l, len(told))
	}
	write("{seed: team, money: 8}")
	changing.look(t.Context())
	if l := models.current().Budgets[team]; l.Money != 8*protocol.Unit || l.Every != spend.Ever {
		t.Errorf("after it was mended: %+v", l)
	}
}
