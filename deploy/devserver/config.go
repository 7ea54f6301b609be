package main

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
	"gopkg.in/yaml.v3"
)

// clusterName is that of the Temporal CLI, so that each opens files of the other.
const clusterName = "active"

const storeName = "sqlite"

// visibilityRPS bounds the list and count calls of a namespace per second. SQLite is slower
// than this; the default of 10 would be the narrower limit.
const visibilityRPS = 1000

// sqlConfig configures the server's database, in memory if db is empty. All connections of
// this process must use the same value, by which the plugin shares them.
func sqlConfig(db string, pragmas map[string]string) *config.SQL {
	c := &config.SQL{PluginName: sqliteplugin.PluginName, MaxConns: 1, MaxIdleConns: 1}
	if db == "" {
		c.DatabaseName = strconv.FormatUint(rand.Uint64(), 36)
		c.ConnectAttributes = map[string]string{"mode": "memory", "cache": "shared"}
	} else {
		c.DatabaseName = uriPath(db)
		c.ConnectAttributes = map[string]string{
			"mode":         "rw",
			"journal_mode": "wal", // two to four times as fast as the default
			// FULL: what was acknowledged is on the disk. With NORMAL (1) a power cut loses
			// the last commits.
			"synchronous":  "2",
			"busy_timeout": "10000", // for other programs that look at the file
		}
	}
	maps.Copy(c.ConnectAttributes, pragmas)
	return c
}

// innerIP is where the services other than the frontend listen.
const innerIP = "127.0.0.1"

var services = []primitives.ServiceName{
	primitives.FrontendService, primitives.HistoryService, primitives.MatchingService, primitives.WorkerService,
}

// sqlPersistence is that of one file, which has one shard.
func sqlPersistence(store *config.SQL) config.Persistence {
	return config.Persistence{
		DefaultStore:     storeName,
		VisibilityStore:  storeName,
		NumHistoryShards: 1,
		DataStores:       map[string]config.DataStore{storeName: {SQL: store}},
	}
}

// serverConfig describes a server of one process. Its frontend listens on the given port, and
// clients reach one at --port. The inner services get free ports on loopback.
func serverConfig(o *options, store config.Persistence, port int) (*config.Config, error) {
	frontend := hostPort(o.ip, o.port)
	c := &config.Config{
		Persistence: store,
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{clusterName: {
				Enabled:                true,
				InitialFailoverVersion: 1,
				RPCAddress:             frontend,
				ClusterID:              uuid.NewString(), // counts only for a new database
			}},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		PublicClient:        config.PublicClient{HostPort: frontend},
		Archival: config.Archival{
			History:    config.HistoryArchival{State: "disabled"},
			Visibility: config.VisibilityArchival{State: "disabled"},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: "disabled"},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
		}},
		Services: make(map[string]config.Service),
	}
	for _, name := range services {
		rpc := config.RPC{BindOnIP: innerIP}
		if name == primitives.FrontendService {
			rpc = config.RPC{BindOnIP: o.ip, GRPCPort: port}
		} else {
			port, err := freePort(rpc.BindOnIP)
			if err != nil {
				return nil, err
			}
			rpc.GRPCPort = port
		}
		c.Services[string(name)] = config.Service{RPC: rpc}
	}
	return c, nil
}

func dynamicClient(o *options) dynamicconfig.StaticClient {
	c := dynamicconfig.StaticClient{dynamicconfig.EnableServerVersionCheck.Key(): false}
	if !o.postgres.on() {
		c[dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key()] = visibilityRPS
		c[dynamicconfig.WorkerCommandsEnabled.Key()] = true
		c[dynamicconfig.EnableCancelActivityWorkerCommand.Key()] = true
		c[dynamicconfig.MatchingEnableFairness.Key()] = true
	}
	for key, values := range o.dynamic {
		c[key] = values
	}
	return c
}

// dynamicValues checks key=value settings against those that this server knows.
func dynamicValues(l []string) (dynamicconfig.ConfigValueMap, error) {
	loader := dynamicconfig.YamlLoader{Map: make(dynamicconfig.ConfigValueMap)}
	for _, s := range l {
		key, text, ok := strings.Cut(s, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("%q is not key=value", s)
		}
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			return nil, fmt.Errorf("%s: the value is not JSON: %w", key, err)
		}
		one, err := yaml.Marshal([]map[string]any{{"value": value}})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		loader.LoadValue(dynamicconfig.MakeKey(key), one)
	}
	if err := errors.Join(append(loader.Errors, loader.Warnings...)...); err != nil {
		return nil, fmt.Errorf("server %s does not take it: %w", serverVersion, err)
	}
	return loader.Map, nil
}
