package authority

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
	"fairlead.dev/fairlead/workflows/session"
)

// The columns of the page.
const (
	deedStart      = "start"
	deedMessage    = "message"
	deedDecide     = "decide"
	deedExec       = "host exec"
	deedImport     = "seed import"
	deedExport     = "seed export"
	deedTranscript = "read transcript"
	deedDecode     = "decode payload"
)

var deeds = []string{deedStart, deedMessage, deedDecide, deedExec, deedImport, deedExport, deedTranscript, deedDecode}

const (
	target = "target"             // the session that cells are about
	mark   = "marked-prompt-7d20" // in its first message
)

// together are the columns that are tried one after the other, since both need a turn of
// target. The others run beside them.
var together = [][]string{{deedMessage, deedDecide}, {deedStart}, {deedExec}, {deedImport}, {deedExport}, {deedTranscript}, {deedDecode}}

// An attempt tries a deed in every form that it has, for a cell's id. got is what it has
// read. A nil error means that at least one form was not refused.
type attempt func(ctx context.Context, deed, id string) (got []byte, err error)

// scene is what all cells share.
var scene struct {
	boss   *caller // root, who may do everything and sees what happened
	host   protocol.HostSpec
	seed   protocol.SeedView
	bundle []byte

	mu         sync.Mutex
	identities map[string]*age.X25519Identity // by cell; guarded by mu
}

// The page says of each stranger and each deed whether it is allowed. Each cell is tried.
func TestStrangersMayDoWhatThePageSaysAndNothingElse(t *testing.T) {
	table := page(t)
	began := time.Now()
	setScene(t)
	t.Logf("the scene is set after %.1f s", time.Since(began).Seconds())
	rows := strangers(t)
	t.Logf("the strangers are there after %.1f s", time.Since(began).Seconds())
	t.Cleanup(func() { t.Logf("all is cleaned up after %.1f s", time.Since(began).Seconds()) })
	t.Cleanup(func() { t.Logf("the cells are tried after %.1f s", time.Since(began).Seconds()) })
	for who := range table {
		if rows[who] == nil {
			t.Errorf("the page names %q, whom this test does not know", who)
		}
	}
	var order []string
	for who := range rows {
		if table[who] == nil {
			t.Errorf("the page lacks %q", who)
		}
		order = append(order, who)
	}
	if t.Failed() {
		return
	}
	// Who may most comes last. So a refusal before was none for want of an open approval or
	// of a worker.
	slices.SortFunc(order, func(a, b string) int {
		if n := allowedTo(table[a]) - allowedTo(table[b]); n != 0 {
			return n
		}
		return strings.Compare(a, b)
	})
	t.Run("cells", func(t *testing.T) {
		for _, columns := range together {
			t.Run(columns[0], func(t *testing.T) {
				t.Parallel()
				for _, deed := range columns {
					for _, who := range order {
						cell(t, rows[who], who, deed, table[who][deed])
					}
				}
			})
		}
	})
	// Nothing had an effect later.
	for _, deed := range deeds {
		if deed == deedDecide {
			continue // the approval was decided by who may
		}
		for who, row := range table {
			if !strings.HasPrefix(row[deed], "refused") {
				continue
			}
			if did, err := touched(t.Context(), deed, cellID(who), nil); did || err != nil {
				t.Errorf("%s, %s: in the end there is an effect, or it is unknown: %v", who, deed, err)
			}
		}
	}
	for _, deed := range deeds {
		if cell := table["admin"][deed]; cell != "allowed" {
			t.Errorf("admin, %s: the page says %q, so no cell shows that the deed can be done", deed, cell)
		}
	}
}

func allowedTo(row map[string]string) (n int) {
	for _, says := range row {
		if strings.HasPrefix(says, "allowed") {
			n++
		}
	}
	return n
}

// cellID names what a stranger makes.
func cellID(who string) string {
	id := strings.ReplaceAll(strings.ToLower(who), " ", "-")
	return id[:min(len(id), 48)] // the name of a session has 63 at most
}

// cell tries one deed of one stranger.
func cell(t *testing.T, try attempt, who, deed, says string) {
	t.Helper()
	id := cellID(who)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if deed == deedDecide {
		openApproval(ctx, t)
	}
	began := time.Now()
	got, err := try(ctx, deed, id)
	t.Logf("%s, %s: %.1f s, %d bytes, %v", who, deed, time.Since(began).Seconds(), len(got), err)
	if says == "allowed" || strings.HasPrefix(says, "allowed: ") {
		if err == nil {
			err = lab.Until(ctx, "the effect", func() (bool, error) { return touched(ctx, deed, id, got) })
		}
		if err != nil {
			t.Errorf("%s, %s: the page says %q: %v", who, deed, says, err)
		}
		if deed == deedStart {
			closed(t, id)
		}
		return
	}
	if err == nil {
		t.Errorf("%s, %s: the page says %q, and it was not refused", who, deed, says)
	} else if why := unlike(says, err); why != "" {
		t.Errorf("%s, %s: the page says %q, and %s: %v", who, deed, says, why, err)
	}
	switch did, err := touched(ctx, deed, id, got); {
	case err != nil:
		t.Errorf("%s, %s: look for an effect: %v", who, deed, err)
	case did:
		t.Errorf("%s, %s: the page says %q, and it had an effect", who, deed, says)
	}
	if deed == deedImport {
		_ = scene.boss.temporal.TerminateWorkflow(ctx, protocol.SeedID(id), "", "the test has seen enough") // most have none
	}
}

// reasons has, for each reason on the page, what the refusal says then: one of these.
var reasons = map[string][]string{
	"no certificate":     {"certificate required"},
	"closed folder":      {"api.sock: connect: permission denied", "codec.sock: connect: permission denied"},
	"no login":           {"401 Unauthorized"},
	"not encrypted":      {"it is not encrypted", "it needs payload key"}, // the answer to an update is encrypted, too
	"no key":             {"it needs payload key"},
	"not signed":         {"it is not signed"},
	"no role":            {"no binding that names"},
	"expired":            {"is not valid at"},
	"revoked":            {"is revoked"},
	"no worker's mark":   {"it has no valid mark of a worker", "a workflow that none of our workers ran"},
	"not a worker's key": {"is not that of an allowed signer"},
	"foreign origin":     {"403 Forbidden"},
	"foreign host":       {"421 Misdirected Request"},
}

// unlike says in what a refusal differs from what the page says, or returns "".
func unlike(says string, err error) string {
	for reason := range strings.SplitSeq(strings.TrimPrefix(says, "refused: "), ", ") {
		words, ok := reasons[reason]
		switch {
		case !ok:
			return fmt.Sprintf("the test does not know %q", reason)
		case !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(err.Error(), w) }):
			return fmt.Sprintf("it was not refused for %q", reason)
		}
	}
	return ""
}

// touched reports whether a deed had any effect, which it looks for where it would be.
func touched(ctx context.Context, deed, id string, got []byte) (bool, error) {
	exists := func(path string) (bool, error) {
		_, err := os.Stat(path)
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	}
	switch deed {
	case deedStart:
		folders, err := filepath.Glob(filepath.Join(e2e.Root, "sessions", id+"*")) // the rogue's child has a longer name
		return len(folders) > 0, err
	case deedMessage:
		var v protocol.SessionView
		if err := scene.boss.query(ctx, protocol.SessionID(target), protocol.QueryState, &v); err != nil {
			return false, err
		}
		if slices.ContainsFunc(v.Queued, func(q protocol.QueuedView) bool { return q.ID == "m-"+id }) ||
			slices.ContainsFunc(v.Messages, func(m protocol.MessageView) bool { return m.ID == "m-"+id }) {
			return true, nil
		}
		text, err := transcript(ctx, scene.boss.worker, target)
		return bytes.Contains(text, []byte(saying(id))), err
	case deedDecide:
		list, err := approvals(ctx)
		return !slices.ContainsFunc(list, func(a protocol.Approval) bool {
			return a.State == protocol.ApprovalOpen && a.Decision == nil && len(a.Agreed) == 0
		}), err
	case deedExec:
		return exists(marker(id))
	case deedImport:
		return imported(ctx, id)
	case deedExport:
		var v protocol.SeedView
		err := scene.boss.query(ctx, protocol.SeedID("team"), protocol.QuerySeed, &v)
		return bytes.Contains(got, []byte(e2e.Lab.Token)) || v.Exported != nil && v.Exported.Recipient == recipient(id), err
	case deedTranscript, deedDecode:
		return bytes.Contains(got, []byte(mark)), nil
	}
	return false, fmt.Errorf("no such deed: %s", deed)
}

// imported reports whether a seed has a generation.
func imported(ctx context.Context, id string) (bool, error) {
	it := scene.boss.temporal.GetWorkflowHistory(ctx, protocol.SeedID(id), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		ev, err := it.Next()
		var none *serviceerror.NotFound
		switch {
		case errors.As(err, &none):
			return false, nil
		case err != nil:
			return false, err
		case ev.GetEventType() == enums.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED:
			var v protocol.SeedView
			err := scene.boss.query(ctx, protocol.SeedID(id), protocol.QuerySeed, &v)
			return v.Generation > 0, err
		}
	}
	return false, nil // a worker that refuses an update leaves no event
}

// openApproval has an approval open in the session asking.
func openApproval(ctx context.Context, t *testing.T) {
	t.Helper()
	if _, err := decision(ctx); err == nil {
		return
	}
	if err := lab.Until(ctx, "the end of the turn before", func() (bool, error) {
		var v protocol.SessionView
		err := scene.boss.query(ctx, protocol.SessionID(target), protocol.QueryState, &v)
		return v.State == protocol.Idle && len(v.Queued) == 0, err
	}); err != nil {
		t.Fatal(err)
	}
	if err := scene.boss.message(ctx, protocol.SessionID(target), protocol.SignalMessage, protocol.Message{ID: "m-" + rand.Text(), Text: "you need a command"}); err != nil {
		t.Fatal(err)
	}
	if err := lab.Until(ctx, "an approval", func() (bool, error) {
		_, err := decision(ctx)
		return err == nil, nil
	}); err != nil {
		t.Fatal(err)
	}
}

// setScene makes what all cells share.
func setScene(t *testing.T) {
	t.Helper()
	ctx := e2e.Within(t)
	codec, err := e2e.Lab.Codec("default")
	if err != nil {
		t.Fatal(err)
	}
	key, err := signerOf("root", os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	if scene.boss, err = newCaller(ctx, e2e.Lab.Temporal, codec, "root", key); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { scene.boss.temporal.Close() })
	scene.identities = map[string]*age.X25519Identity{}
	var host protocol.HostView
	if err := scene.boss.query(ctx, protocol.PoolID(""), protocol.QueryHost, &host, "web-1"); err != nil {
		t.Fatal(err)
	}
	scene.host = *host.Spec
	if err := scene.boss.query(ctx, protocol.SeedID("team"), protocol.QuerySeed, &scene.seed); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(scriptedmodel.ConfigTOML(e2e.Lab.Model.BaseURL(), e2e.Lab.Token)), 0o600); err != nil {
		t.Fatal(err)
	}
	bundle, err := seeds.Pack(dir)
	if err != nil {
		t.Fatal(err)
	}
	scene.bundle = bundle.Bytes()
	// alice owns both sessions.
	alice, err := signerOf("alice", os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	owner := *scene.boss
	owner.key, owner.who = alice, "alice"
	in, err := owner.signed(protocol.SessionID(target), protocol.TypeSession, session.Input{ID: target, Options: sessionOptions(),
		First: &protocol.Message{ID: "m-first", Text: "hello " + mark}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := owner.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: protocol.SessionID(target), TaskQueue: protocol.TaskQueue}, protocol.TypeSession, in); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, target) })
	var last error
	if err := lab.Until(ctx, "the first turn", func() (bool, error) {
		var text []byte
		text, last = transcript(ctx, scene.boss.worker, target) // which there is none of at first
		return strings.Contains(string(text), "You said: hello "+mark), nil
	}); err != nil {
		t.Fatal(err, last)
	}
}

// closed has a session close, and does not wait for its end.
func closed(t *testing.T, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := scene.boss.message(ctx, protocol.SessionID(id), protocol.SignalClose, protocol.Close{Discard: true}); err != nil {
		t.Errorf("close %s: %v", id, err)
	}
}

// strangers returns the rows.
func strangers(t *testing.T) map[string]attempt {
	t.Helper()
	ctx := e2e.Within(t)
	codec := scene.boss.codec
	rows := map[string]attempt{}
	add := func(row string, dial func(context.Context) (client.Client, error), codec *payload.Codec, who string, key ssh.Signer) {
		t.Helper()
		c, err := newCaller(ctx, dial, codec, who, key)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.temporal.Close)
		if _, encrypts := codec.Encrypts(); !encrypts {
			c.patience = 10 * time.Second // no worker takes a workflow of its own, and so none answers
		}
		rows[row] = c.try
	}
	signer := func(name string) ssh.Signer {
		key, err := signerOf(name, os.ReadFile)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	add("Temporal client without the payload key", e2e.Lab.Outsider, payload.NewCodec("default"), "", nil)
	add("Temporal client with the payload key but no principal", e2e.Lab.Temporal, codec, "", nil)
	add("viewer", e2e.Lab.Temporal, codec, "vera", signer("vera"))
	add("operator", e2e.Lab.Temporal, codec, "alice", signer("alice"))
	add("approver", e2e.Lab.Temporal, codec, "bob", signer("bob"))
	add("revoked key", e2e.Lab.Temporal, codec, "rita", signer("rita"))
	add("admin", e2e.Lab.Temporal, codec, "root", signer("root"))

	now := time.Now()
	add("expired certificate", e2e.Lab.Temporal, codec, "eve", certified(t, now.Add(-time.Hour), now.Add(-time.Minute)))
	// The same certificate counts while it is valid.
	fresh, err := newCaller(ctx, e2e.Lab.Temporal, codec, "eve", certified(t, now.Add(-time.Minute), now.Add(time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fresh.temporal.Close)
	if got, err := transcript(ctx, fresh.worker, target); err != nil || !bytes.Contains(got, []byte(mark)) {
		t.Errorf("with a certificate that is valid eve reads %d bytes, %v", len(got), err)
	}
	rows["other local uid"] = otherUser(t)
	rows["rogue poller"] = roguePoller(t)
	ui := newWebPages(t)
	rows["web page on another origin"] = ui.page("https://pages.example", ui.address, "cross-site")
	rebound := "rebound.example:" + ui.port
	rows["DNS rebinding"] = ui.page("http://"+rebound, rebound, "same-origin")
	// The same requests of the UI's own page are answered.
	own := ui.page("http://"+ui.address, ui.address, "same-origin")
	for _, deed := range []string{deedExec, deedDecode, deedMessage, deedExport} {
		got, err := own(ctx, deed, "own-page")
		if err == nil {
			err = lab.Until(ctx, "the effect", func() (bool, error) { return touched(ctx, deed, "own-page", got) })
		}
		if err != nil {
			t.Errorf("the UI's own page, %s: %v", deed, err)
		}
	}
	return rows
}

// certified returns the key of eve with a certificate.
func certified(t *testing.T, from, to time.Time) ssh.Signer {
	t.Helper()
	key, err := signerOf("eve", os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := signerOf("authority", os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	cert := &ssh.Certificate{Key: key.PublicKey(), CertType: ssh.UserCert, KeyId: "eve/1", ValidPrincipals: []string{"eve"},
		ValidAfter: uint64(from.Unix()), ValidBefore: uint64(to.Unix())}
	if err := cert.SignCert(rand.Reader, ca); err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewCertSigner(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// page reads the table: rows by who, then by what.
func page(t *testing.T) map[string]map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(e2e.Repo, "docs", "reference", "strangers.md"))
	if err != nil {
		t.Fatal(err)
	}
	var head []string
	table := map[string]map[string]string{}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			if len(table) > 0 {
				break // other tables follow
			}
			continue
		}
		var cells []string
		for c := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(c))
		}
		switch {
		case head == nil:
			if cells[0] != "who" {
				continue // another table
			}
			if head = cells[1:]; !slices.Equal(head, deeds) {
				t.Fatalf("the columns of the page are %q, and those of the test %q", head, deeds)
			}
		case strings.Trim(cells[0], "-") == "":
		case len(cells) != len(deeds)+1 || table[cells[0]] != nil:
			t.Fatalf("a row with %d cells, or for the second time: %s", len(cells), line)
		default:
			row := map[string]string{}
			for i, says := range cells[1:] {
				if why, ok := strings.CutPrefix(says, "refused: "); says != "allowed" && !strings.HasPrefix(says, "allowed: ") && (!ok || why == "") {
					t.Errorf("%s, %s: %q is neither allowed nor refused for a reason", cells[0], head[i], says)
				}
				row[head[i]] = says
			}
			table[cells[0]] = row
		}
	}
	if len(table) == 0 {
		t.Fatal("the page has no table")
	}
	return table
}
