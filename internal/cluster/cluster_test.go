package cluster

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	enums "go.temporal.io/api/enums/v1"
	namespacepb "go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/realparts"
)

// patience bounds every wait of these tests.
const patience = 5 * time.Minute

// newServer returns a connection to a real server.
func newServer(t *testing.T) (context.Context, client.Client) {
	t.Helper()
	realparts.NotShort(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	port, err := hosttest.TakePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = port.Release() })
	server := exec.Command(realparts.DevServer(t), "server", "start-dev", "--headless", "--port", strconv.Itoa(port.Number), "--db-filename", filepath.Join(t.TempDir(), "t.db"))
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	for {
		c, err := client.DialContext(ctx, client.Options{HostPort: net.JoinHostPort("127.0.0.1", strconv.Itoa(port.Number))})
		if err == nil {
			t.Cleanup(c.Close)
			return ctx, c
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// newNamespace registers a namespace without search attributes, and waits until the server
// knows it.
func newNamespace(t *testing.T, ctx context.Context, c client.Client, name string, keeps time.Duration) {
	t.Helper()
	_, err := c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{Namespace: name, WorkflowExecutionRetentionPeriod: durationpb.New(keeps)})
	if err != nil {
		t.Fatal(err)
	}
	for {
		_, err := c.WorkflowService().CountWorkflowExecutions(ctx, &workflowservice.CountWorkflowExecutionsRequest{Namespace: name})
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		select { // the server refuses those who ask too often
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func findings(t *testing.T, ctx context.Context, c Client, namespace string) map[string]Finding {
	t.Helper()
	all, err := Check(ctx, c, namespace)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]Finding{}
	for _, f := range all {
		if f.Detail == "" || !f.OK && f.Hint == "" || out[f.Name].Name != "" {
			t.Errorf("a finding without words, without a remedy, or twice: %+v", f)
		}
		out[f.Name] = f
	}
	return out
}

func bad(all map[string]Finding) (names []string) {
	for name, f := range all {
		if !f.OK {
			names = append(names, name)
		}
	}
	return names
}

func TestANamespaceThatLacksSomethingIsToldWithTheCommandAndPrepared(t *testing.T) {
	ctx, c := newServer(t)
	f := findings(t, ctx, c, "none")
	if got := f["namespace"]; got.OK || got.Hint != "temporal operator namespace create --namespace none --retention 30d" || len(bad(f)) != 1 {
		t.Errorf("no such namespace: %+v", f)
	}

	newNamespace(t, ctx, c, "bare", 30*24*time.Hour)
	f = findings(t, ctx, c, "bare")
	if names := bad(f); len(names) != 1 || names[0] != "attributes" {
		t.Fatalf("a bare namespace: %+v", f)
	}
	for _, a := range Attributes() {
		if f := f["attributes"]; !strings.Contains(f.Detail, a.String()) || !strings.Contains(f.Hint, " --name "+a.Name+" --type "+a.Type.String()) {
			t.Errorf("%s is not told: %+v", a, f)
		}
	}
	// Who may not list attributes finds out by a query.
	for name, as := range map[string]Client{"an operator": c, "a worker": unlisting{c}} {
		var lack *LackError
		if err := Lacking(ctx, as, "bare"); !errors.As(err, &lack) || !strings.Contains(err.Error(), "Fairlead") || !strings.Contains(err.Error(), "ctl cluster check") {
			t.Errorf("%s: a bare namespace lacks %v", name, err)
		}
	}
	if f := findings(t, ctx, unlisting{c}, "bare")["attributes"]; f.OK || !strings.Contains(f.Hint, "--name FairleadState --type Keyword") {
		t.Errorf("who may not list attributes is told %+v", f)
	}

	made, err := Prepare(ctx, c, "bare")
	if err != nil || len(made) != len(Attributes()) {
		t.Fatalf("made are %v (%v)", made, err)
	}
	for name, as := range map[string]Client{"an operator": c, "a worker": unlisting{c}} {
		if err := Lacking(ctx, as, "bare"); err != nil {
			t.Errorf("%s: a prepared namespace lacks %v", name, err)
		}
		if f := findings(t, ctx, as, "bare"); len(bad(f)) > 0 || f["visibility"].Name == "" {
			t.Errorf("%s: a prepared namespace: %+v", name, f)
		}
	}
	if made, err := Prepare(ctx, c, "bare"); err != nil || len(made) != 0 {
		t.Errorf("once more, made are %v (%v)", made, err)
	}
}

func TestAnAttributeOfAnotherTypeIsLeftAloneAndTold(t *testing.T) {
	ctx, c := newServer(t)
	newNamespace(t, ctx, c, "taken", 24*time.Hour)
	_, err := c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: "taken", SearchAttributes: map[string]enums.IndexedValueType{
		"FairleadState": enums.INDEXED_VALUE_TYPE_TEXT, "Theirs": enums.INDEXED_VALUE_TYPE_KEYWORD}})
	if err != nil {
		t.Fatal(err)
	}
	var lack *LackError
	for end := false; !end; { // the server tells of a new attribute with a delay
		if err := Lacking(ctx, c, "taken"); !errors.As(err, &lack) {
			t.Fatalf("it lacks %v", err)
		}
		end = len(lack.Lack.Other) > 0
	}
	made, err := Prepare(ctx, c, "taken")
	if !errors.As(err, &lack) || len(made) != 0 || !strings.Contains(err.Error(), "FairleadState (Text) has another type") {
		t.Errorf("made are %v (%v)", made, err)
	}
	have, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: "taken"})
	if err != nil || len(have.GetCustomAttributes()) != 2 {
		t.Errorf("there are %v (%v)", have.GetCustomAttributes(), err)
	}
	if f := findings(t, ctx, c, "taken")["attributes"]; f.OK || !strings.Contains(f.Hint, "search-attribute remove --namespace taken --name FairleadState") {
		t.Errorf("check says %+v", f)
	}
}

// Each requirement that the test's server meets is tried without it.
func TestEachRequirementThatIsNotMetHasARemedy(t *testing.T) {
	f := false
	for name, got := range map[string]Finding{
		"server":     server(&workflowservice.GetSystemInfoResponse{ServerVersion: "1.17.0"}),
		"namespace":  registered(&namespacepb.NamespaceInfo{Name: "n", State: enums.NAMESPACE_STATE_DEPRECATED}),
		"updates":    updates(&namespacepb.NamespaceInfo_Capabilities{SyncUpdate: true}),
		"retention":  retention("my space", &namespacepb.NamespaceConfig{WorkflowExecutionRetentionTtl: durationpb.New(time.Hour)}),
		"sizes":      sizes(&namespacepb.NamespaceInfo_Limits{BlobSizeLimitError: 1 << 20, MemoSizeLimitError: 1 << 10}),
		"visibility": visibility(serviceerror.NewInvalidArgument("no such attribute")),
	} {
		if got.Name != name || got.OK != f || got.Detail == "" || got.Hint == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if hint := retention("my space", nil).Hint; !strings.Contains(hint, "--namespace 'my space' ") {
		t.Errorf("the command is %s", hint)
	}
	for name, got := range map[string]Finding{
		"commands":   commands(nil),
		"visibility": visibility(serviceerror.NewResourceExhausted(enums.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "slowly")),
	} {
		if got.Name != name || !got.OK || got.Hint == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// unlisting is the connection of somebody who may not list search attributes.
type unlisting struct{ Client }

func (c unlisting) OperatorService() operatorservice.OperatorServiceClient {
	return denying{c.Client.OperatorService()}
}

type denying struct {
	operatorservice.OperatorServiceClient
}

func (denying) ListSearchAttributes(context.Context, *operatorservice.ListSearchAttributesRequest, ...grpc.CallOption) (*operatorservice.ListSearchAttributesResponse, error) {
	return nil, serviceerror.NewPermissionDenied("not yours", "")
}
