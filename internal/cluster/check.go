package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	enums "go.temporal.io/api/enums/v1"
	namespacepb "go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
)

// A Finding says whether a cluster meets one requirement.
type Finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	// Hint is what to do, with the exact command. It may also be set if OK is.
	Hint string `json:"hint"`
}

const (
	// leastRetention is how long Temporal must keep an ended workflow. Sessions, batches and
	// their approvals can be listed and shown for as long.
	leastRetention = 24 * time.Hour
	// leastPayload is the size of a payload, in bytes, that a server must take. Sessions
	// carry at most 1.5 MiB from one run to the next.
	leastPayload = 2 << 20
	// leastMemo is the size of a memo, in bytes. A session's summary is kept in its memo.
	leastMemo = 64 << 10
)

// Check returns a finding for each requirement. It returns an error if the server does not
// answer.
func Check(ctx context.Context, c Client, namespace string) ([]Finding, error) {
	var out []Finding
	add := func(f Finding) { out = append(out, f) }
	system, err := c.WorkflowService().GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
	if err != nil {
		return nil, err
	}
	add(server(system))
	ns, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	var none *serviceerror.NamespaceNotFound
	switch {
	case errors.As(err, &none):
		add(Finding{Name: "namespace", Detail: fmt.Sprintf("there is no namespace %s", namespace), Hint: "temporal operator namespace create --namespace " + quoted(namespace) + " --retention 30d"})
		return out, nil
	case err != nil:
		return nil, err
	}
	add(registered(ns.GetNamespaceInfo()))
	add(updates(ns.GetNamespaceInfo().GetCapabilities()))
	add(retention(namespace, ns.GetConfig()))
	add(sizes(ns.GetNamespaceInfo().GetLimits()))
	attributes, err := attributes(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	add(attributes)
	if attributes.OK {
		err := searchable(ctx, c, namespace)
		add(visibility(err))
	}
	deployed, err := deployments(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	if deployed != nil {
		add(*deployed)
	}
	add(commands(ns.GetNamespaceInfo().GetCapabilities()))
	return out, nil
}

func server(s *workflowservice.GetSystemInfoResponse) Finding {
	f := Finding{Name: "server", OK: true, Detail: "version " + s.GetServerVersion()}
	var lacks []string
	for _, c := range []struct {
		has  bool
		what string
	}{
		{s.GetCapabilities().GetSupportsSchedules(), "schedules"},
		{s.GetCapabilities().GetUpsertMemo(), "changes of a memo"},
		{s.GetCapabilities().GetEncodedFailureAttributes(), "encoded failures"},
	} {
		if !c.has {
			lacks = append(lacks, c.what)
		}
	}
	if lacks != nil {
		f.OK, f.Hint = false, "install a newer server: https://github.com/temporalio/temporal/releases"
		f.Detail += " lacks " + strings.Join(lacks, ", ")
	}
	return f
}

func registered(info *namespacepb.NamespaceInfo) Finding {
	f := Finding{Name: "namespace", OK: true, Detail: info.GetName()}
	if info.GetState() != enums.NAMESPACE_STATE_REGISTERED {
		f.OK, f.Detail = false, fmt.Sprintf("%s is %s", info.GetName(), strings.ToLower(info.GetState().String()))
		f.Hint = "choose another namespace (--namespace)"
	}
	return f
}

func updates(has *namespacepb.NamespaceInfo_Capabilities) Finding {
	f := Finding{Name: "updates", OK: true, Detail: "messages and decisions are acknowledged"}
	if !has.GetSyncUpdate() || !has.GetAsyncUpdate() {
		f.OK, f.Detail = false, "the server takes no workflow updates: ctl cannot send a message or a decision"
		f.Hint = "set frontend.enableUpdateWorkflowExecution and frontend.enableUpdateWorkflowExecutionAsyncAccepted to true in the server's dynamic configuration"
	}
	return f
}

func retention(namespace string, c *namespacepb.NamespaceConfig) Finding {
	keeps := c.GetWorkflowExecutionRetentionTtl().AsDuration()
	f := Finding{Name: "retention", OK: true, Detail: fmt.Sprintf("ended sessions are listed for %s", days(keeps))}
	if keeps < leastRetention {
		f.OK, f.Detail = false, fmt.Sprintf("ended sessions are listed for %s only", days(keeps))
		f.Hint = "temporal operator namespace update --namespace " + quoted(namespace) + " --retention 30d"
	}
	return f
}

func days(d time.Duration) string {
	if d >= 48*time.Hour {
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
	return d.String()
}

// sizes takes a limit of 0 as not reported.
func sizes(l *namespacepb.NamespaceInfo_Limits) Finding {
	f := Finding{Name: "sizes", OK: true, Detail: "payloads and memos are large enough"}
	if l.GetBlobSizeLimitError() == 0 && l.GetMemoSizeLimitError() == 0 {
		f.Detail = "the server does not say how large payloads may be"
	}
	var small, keys []string
	for _, s := range []struct {
		what, key  string
		has, needs int64
	}{
		{"payloads", "limit.blobSize.error", l.GetBlobSizeLimitError(), leastPayload},
		{"memos", "limit.memoSize.error", l.GetMemoSizeLimitError(), leastMemo},
	} {
		if s.has != 0 && s.has < s.needs {
			small = append(small, fmt.Sprintf("%s may have %d bytes, and Fairlead needs %d", s.what, s.has, s.needs))
			keys = append(keys, fmt.Sprintf("%s to at least %d", s.key, s.needs))
		}
	}
	if small != nil {
		f.OK, f.Detail = false, strings.Join(small, "; ")
		f.Hint = "set " + strings.Join(keys, " and ") + " in the server's dynamic configuration"
	}
	return f
}

func attributes(ctx context.Context, c Client, namespace string) (Finding, error) {
	f := Finding{Name: "attributes", OK: true, Detail: fmt.Sprintf("all %d are registered", len(Attributes()))}
	l, err := lack(ctx, c, namespace)
	if unlisted(err) {
		err = searchable(ctx, c, namespace)
		var bad *serviceerror.InvalidArgument
		if errors.As(err, &bad) {
			f.OK, f.Detail = false, fmt.Sprintf("you may not list them, and a query for them is refused: %v", err)
			f.Hint = "have an operator of the cluster run: " + create(namespace, Attributes())
			return f, nil
		}
		f.Detail = "a query for all of them works; you may not list them"
		return f, err
	}
	if err != nil {
		return f, err
	}
	switch {
	case len(l.Other) > 0:
		f.OK, f.Detail = false, "registered with another type than Fairlead's: "+list(l.Other)
		f.Hint = "use another namespace (--namespace); or remove them, if nothing else uses them: " + remove(namespace, l.Other)
	case len(l.Missing) > 0:
		f.OK, f.Detail = false, "missing: "+list(l.Missing)
		f.Hint = "ctl cluster prepare; or: " + create(namespace, l.Missing)
	}
	return f, nil
}

func create(namespace string, all []Attribute) string {
	var b strings.Builder
	b.WriteString("temporal operator search-attribute create --namespace " + quoted(namespace))
	for _, a := range all {
		fmt.Fprintf(&b, " --name %s --type %s", a.Name, a.Type)
	}
	return b.String()
}

func remove(namespace string, all []Attribute) string {
	var b strings.Builder
	b.WriteString("temporal operator search-attribute remove --namespace " + quoted(namespace))
	for _, a := range all {
		b.WriteString(" --name " + a.Name)
	}
	return b.String()
}

func visibility(err error) Finding {
	f := Finding{Name: "visibility", OK: true, Detail: "a query for them works"}
	var busy *serviceerror.ResourceExhausted
	switch {
	case errors.As(err, &busy):
		f.Detail = fmt.Sprintf("the server limits queries: %v", err)
		f.Hint = "lists are slow: raise frontend.namespaceRPS.visibility in the server's dynamic configuration"
	case err != nil:
		f.OK, f.Detail = false, fmt.Sprintf("a query for them is refused: %v", err)
		f.Hint = "a server takes new attributes after up to a minute; if this stays, look at the server's log"
	}
	return f
}

// commands is never bad: without worker commands, workers follow the histories of sessions with a
// running turn instead.
func commands(has *namespacepb.NamespaceInfo_Capabilities) Finding {
	f := Finding{Name: "commands", OK: true, Detail: "workers hear of an interrupt at once"}
	if !has.GetWorkerCommands() {
		f.Detail = "workers follow the history of each session that runs a turn, to hear of an interrupt at once"
		f.Hint = "to save them that, set frontend.WorkerCommandsEnabled and system.enableCancelActivityWorkerCommand to true in the server's dynamic configuration"
	}
	return f
}

// quoted makes a word of a command line.
func quoted(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
