package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/dynamicconfig"
)

func TestParseTakesWhatTheSDKPasses(t *testing.T) {
	o, err := parse([]string{
		"--ip", "127.0.0.1", "--port", "7999", "--namespace", "ns",
		"--dynamic-config-value", "frontend.enableServerVersionCheck=false",
		"--log-level", "warn", "--log-format", "pretty", "--headless",
		"--db-filename", "some.db", "--ui-port", "8999",
		"--search-attribute", "Customer=Keyword", "--search-attribute", "Amount=double",
		"--sqlite-pragma", "synchronous=2",
	})
	if err != nil {
		t.Fatal(err)
	}
	if o.port != 7999 || o.uiPort != 8999 || !o.headless || o.namespaces[0] != "ns" || o.pragmas["synchronous"] != "2" {
		t.Errorf("not taken as given: %+v", o)
	}
	if !filepath.IsAbs(o.db) || filepath.Base(o.db) != "some.db" {
		t.Errorf("db is %q, want an absolute path to some.db", o.db)
	}
	if o.attributes["Customer"] != enumspb.INDEXED_VALUE_TYPE_KEYWORD || o.attributes["Amount"] != enumspb.INDEXED_VALUE_TYPE_DOUBLE {
		t.Errorf("attributes are %v", o.attributes)
	}
	if o.attributes["FairleadState"] != enumspb.INDEXED_VALUE_TYPE_KEYWORD {
		t.Errorf("our own attributes are missing from %v", o.attributes)
	}
}

func TestParseDefaults(t *testing.T) {
	o, err := parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	if o.ip != "127.0.0.1" || o.uiIP != "127.0.0.1" || o.port != 7233 || o.headless || o.db != "" || o.retention != 30*24*time.Hour {
		t.Errorf("defaults are %+v", o)
	}
	if len(o.namespaces) != 1 || o.namespaces[0] != "default" {
		t.Errorf("namespaces are %v, want default alone", o.namespaces)
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
	}{
		{"--db-file x", []string{"unknown flag --db-file ", "--help"}},
		{"--port", []string{"port"}},
		{"--port 70000", []string{"--port", "70000"}},
		{"--port 9 --ui-port 9", []string{"--port", "--ui-port", "9"}},
		{"--ip example.org", []string{"--ip", "example.org"}},
		{"start", []string{"start", "--help"}},
		{"--namespace a/b", []string{"--namespace", "a/b"}},
		{"--retention 1s", []string{"--retention", "1h"}},
		{"--sqlite-pragma wal", []string{"--sqlite-pragma", "wal"}},
		{"--search-attribute Foo", []string{"--search-attribute", "NAME=TYPE"}},
		{"--search-attribute Foo=Date", []string{"Foo", "Date", "Keyword"}},
		{"--search-attribute WorkflowId=Keyword", []string{"WorkflowId", "choose another"}},
		{"--search-attribute Keyword01=Keyword", []string{"Keyword01", "choose another"}},
		{"--search-attribute FairleadTurn=Keyword", []string{"FairleadTurn", "Int", "Keyword"}},
		{"--dynamic-config-value x", []string{"--dynamic-config-value", "key=value"}},
		{"--dynamic-config-value no.such=1", []string{"--dynamic-config-value", "no.such"}},
		{"--dynamic-config-value workercontroller.enabled=true", []string{"--dynamic-config-value", "workercontroller.enabled"}}, // see without/README.md
		{"--dynamic-config-value frontend.namespaceRPS.visibility=many", []string{"frontend.namespacerps.visibility", "many"}},
		{"--log-level loud", []string{"--log-level", "loud", "debug"}},
		{"--log-format xml", []string{"--log-format", "xml", "json"}},
		{"--ui-codec-endpoint nowhere", []string{"--ui-codec-endpoint", "nowhere"}},
		{"--ui-codec-upstream unix://x.sock", []string{"--ui-codec-upstream", "unix://x.sock"}},
		{"--ui-codec-upstream https://a.example", []string{"--ui-codec-upstream", "https://a.example"}},
		{"--tls-ca a --tls-cert b", []string{"--tls-key", "all three or none"}},
		{"--ui-login f --ui-ip 0.0.0.0", []string{"--ui-login", "loopback"}},
		{"--frontends 2", []string{"--frontends", "--postgres"}},
		{"--postgres-password f", []string{"--postgres-password", "--postgres"}},
		{"--postgres mysql://me@h:1", []string{"--postgres", "postgres://USER@HOST:PORT"}},
		{"--postgres postgres://me:secret@h:1", []string{"--postgres", "--postgres-password"}},
		{"--postgres postgres://me@h", []string{"--postgres", "HOST:PORT"}},
		{"--postgres postgres://me@h:1 --postgres-database A-b", []string{"--postgres-database", "A-b"}},
		{"--postgres postgres://me@h:1 --postgres-password /no/such", []string{"--postgres-password", "/no/such"}},
		{"--postgres postgres://me@h:1 --frontends 99", []string{"--frontends", "99"}},
		{"--postgres postgres://me@h:1 --search-attribute Foo=Keyword", []string{"--search-attribute", "--postgres"}},
	} {
		_, err := parse(strings.Fields(c.args))
		if err == nil {
			t.Errorf("%s: accepted", c.args)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %q does not name %q", c.args, err, want)
			}
		}
	}
}

func TestParseReportsAllProblemsAtOnce(t *testing.T) {
	_, err := parse(strings.Fields("--ip nowhere --retention 1s --log-level loud"))
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"--ip", "--retention", "--log-level"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not name %s", err, want)
		}
	}
}

func TestHelpListsTheFlags(t *testing.T) {
	if _, err := parse([]string{"--help"}); !errors.Is(err, errHelp) {
		t.Errorf("--help gives %v", err)
	}
	for _, want := range []string{"--db-filename file", "--retention", "(720h0m0s)", "--search-attribute name=type"} {
		if !strings.Contains(usage(), want) {
			t.Errorf("usage does not hold %q:\n%s", want, usage())
		}
	}
}

func TestAskedSettingOverridesOurs(t *testing.T) {
	asked, err := dynamicValues([]string{"frontend.WorkerCommandsEnabled=false"})
	if err != nil {
		t.Fatal(err)
	}
	value := func(c dynamicconfig.Client) any {
		return c.GetValue(dynamicconfig.WorkerCommandsEnabled.Key())[0].Value
	}
	if got := value(dynamicClient(new(options))); got != true {
		t.Errorf("without being asked it is %v, want true", got)
	}
	if got := value(dynamicClient(&options{dynamic: asked})); got != false {
		t.Errorf("asked for false it is %v", got)
	}
}

// With PostgreSQL the server has Temporal's default settings. Tests on it find what depends on our own.
func TestWithPostgreSQLTheSettingsAreTemporalsOwn(t *testing.T) {
	o, err := parse(strings.Fields("--postgres postgres://me@127.0.0.1:5432 --frontends 2 --dynamic-config-value frontend.namespaceRPS.visibility=7"))
	if err != nil {
		t.Fatal(err)
	}
	c := dynamicClient(o)
	for _, key := range []dynamicconfig.Key{dynamicconfig.WorkerCommandsEnabled.Key(), dynamicconfig.EnableCancelActivityWorkerCommand.Key(), dynamicconfig.MatchingEnableFairness.Key()} {
		if values := c.GetValue(key); len(values) > 0 {
			t.Errorf("%s is %v", key, values)
		}
	}
	if values := c.GetValue(dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key()); len(values) != 1 || values[0].Value != 7 {
		t.Errorf("what was asked for is %v", values)
	}
	if main := o.postgres.persistence().DataStores["postgres"].SQL; main.ConnectAddr != "127.0.0.1:5432" || main.User != "me" || main.DatabaseName != "temporal" {
		t.Errorf("the store is %+v", main)
	}
}
