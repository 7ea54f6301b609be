package authority

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/issuer"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/stack"
)

// provider is where dora, emil, fay and gil log in.
var provider *issuer.Issuer

func openProvider() (err error) {
	provider, err = issuer.New(
		issuer.Person{ID: "dora", Email: "dora@example.com", Verified: true, Groups: []string{"ops", "staff"}},
		issuer.Person{ID: "emil", Email: "emil@example.com", Verified: true, Groups: []string{"deciders"}},
		issuer.Person{ID: "fay", Email: "fay@example.com", Verified: true, Groups: []string{"guests"}},
		issuer.Person{ID: "gil", Email: "gil@example.com", Verified: true, Groups: []string{"deciders"}},
	)
	return err
}

// loginPage is the page that people read who set up logins and who log in.
const loginPage = "docs/how-to/let-people-log-in.md"

// loginCommands are the commands of ctl on that page.
var loginCommands = regexp.MustCompile(`(?m)^bin/ctl (\S+)`)

// ofPage returns the lines of the page that match a pattern, with what a reader fills in.
func ofPage(pattern string, fill ...string) (string, error) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", filepath.FromSlash(loginPage)))
	if err != nil {
		return "", err
	}
	lines := regexp.MustCompile("(?m)^"+pattern).FindAllString(string(text), -1)
	if len(lines) != 1 {
		return "", fmt.Errorf("%s has %d lines as %s", loginPage, len(lines), pattern)
	}
	for i := 0; i < len(fill); i += 2 {
		if !strings.Contains(lines[0], fill[i]) {
			return "", fmt.Errorf("%s: %q lacks %q", loginPage, lines[0], fill[i])
		}
		lines[0] = strings.Replace(lines[0], fill[i], fill[i+1], 1)
	}
	return lines[0] + "\n", nil
}

// atHome gives a person who logs in a state folder and a config of their own, as on a
// machine other than that of the worker.
func atHome(t *testing.T, person string) {
	t.Helper()
	info, err := stack.Read(e2e.Lab.State)
	if err != nil {
		t.Fatal(err)
	}
	tls := info.TLS()
	text := fmt.Sprintf("authority: required\ntemporal: {address: %q, namespace: %q, tls: {ca: %q, cert: %q, key: %q}, payload_key: %q}\napi: {address: %q}\n",
		info.Temporal.Address, info.Temporal.Namespace, tls.CA, tls.Cert, tls.Key, info.PayloadKey, info.Workers[0].API)
	if err := os.WriteFile(filepath.Join(keys, person+".yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

var asksCode = regexp.MustCompile(`enter the code ([A-Z-]+) before`)

// logIn runs `ctl login` as a person, who enters the code.
func logIn(t *testing.T, person string) {
	t.Helper()
	c := e2e.Lab.Command(e2e.Within(t), ofPerson(person, "login")...)
	pipe, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for s := bufio.NewScanner(pipe); s.Scan(); {
		said.WriteString(s.Text() + "\n")
		if m := asksCode.FindStringSubmatch(s.Text()); m != nil {
			provider.Approve(m[1], person)
		}
	}
	if err := c.Wait(); err != nil {
		t.Fatalf("%s logs in: %v\n%s", person, err, said.String())
	}
}

// People log in at the identity provider of the page, and have roles by the groups that it
// names.
func TestPeopleOfAnIdentityProviderDoWhatTheirGroupsMay(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(e2e.Repo, filepath.FromSlash(loginPage)))
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, m := range loginCommands.FindAllStringSubmatch(string(text), -1) {
		named = append(named, m[1])
	}
	// The signature with a FIDO key (approval) is made in the tests of cmd/ctl/internal/signkey.
	if !slices.Equal(named, []string{"approval", "login", "whoami", "logout"}) {
		t.Errorf("the page has the commands %q; this test runs others", named)
	}
	for _, who := range []string{"dora", "emil", "fay", "gil"} {
		atHome(t, who)
	}
	if r := as(t, "dora", "session", "start", "--host", "web-1", "--seed", "team", "--id", "too-early"); r.Code != 2 || !strings.Contains(r.Stderr, "ctl login") {
		t.Errorf("before the login: %v", r)
	}
	logIn(t, "dora")
	logIn(t, "emil")
	var who struct {
		Principal, Source string
		Groups, Roles     []string
	}
	if err := e2e.FirstJSON(mustDo(t, "dora", "whoami", "-o", "json"), &who); err != nil || who.Principal != "dora@example.com" || who.Source != "certificate" ||
		!slices.Equal(who.Groups, []string{"ops", "staff"}) || !slices.Equal(who.Roles, []string{"operator"}) {
		t.Errorf("whoami says %+v, %v", who, err)
	}
	provider.Rotate() // who is logged in goes on, and others log in
	logIn(t, "fay")

	startAs(t, "dora", "of-dora")
	if o := objectOf(t, "of-dora"); o.Owner != "dora@example.com" {
		t.Errorf("the session is that of %q", o.Owner)
	}
	mustDo(t, "dora", "session", "send", "of-dora", "need a command", "--no-wait")
	e2e.Open(t, "of-dora", 1)
	for _, who := range []string{"dora", "fay"} {
		mustNot(t, who, "allows approval.decide", "approval", "accept", "of-dora.1")
	}
	mustNot(t, "fay", "allows session.message", "session", "send", "of-dora", "hello", "--no-wait")
	mustDo(t, "emil", "approval", "accept", "of-dora.1")
	e2e.Idle(t, "of-dora")
	if text := e2e.LastText(t, "of-dora"); !strings.Contains(text, "it ran") {
		t.Errorf("the session says %q", text)
	}

	decidesByLogins(t)

	path := filepath.Join(t.TempDir(), "batch.yaml")
	if err := os.WriteFile(path, []byte("id: doras\nprompt: \"say {{.item}}\"\ndefaults: {host: web-1, seed: team}\nitems: [one]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	mustDo(t, "dora", "batch", "run", path)
	var v protocol.BatchView
	if err := e2e.Lab.JSON(e2e.Within(t), &v, "batch", "show", "doras"); err != nil || v.Done != 1 || v.Failed != 0 {
		t.Errorf("the batch is %+v, %v", v, err)
	}
	fires(t, "dora", "dora@example.com", "by-login")
	isFollowedUp(t, "dora", "dora@example.com")

	mustDo(t, "dora", "logout")
	if r := as(t, "dora", "session", "send", "of-dora", "hello", "--no-wait"); r.Code != 2 || !strings.Contains(r.Stderr, "ctl login") {
		t.Errorf("after the logout: %v", r)
	}
}

// isFollowedUp starts a session of somebody's that starts another one in their name.
func isFollowedUp(t *testing.T, who, principal string) {
	t.Helper()
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte("follow_ups:\n  - {name: again, prompt: hello, after: {turns: 1}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	startAs(t, who, "followed", "--follow-up", rules)
	mustDo(t, who, "session", "send", "followed", "hello")
	e2e.Until(t, "the follow-up ends", func() (bool, error) {
		all := e2e.Show(t, "followed").FollowUps
		return len(all) == 1 && all[0].State != protocol.FollowUpStarted, nil
	})
	v := e2e.Show(t, "followed").FollowUps[0]
	if !strings.HasPrefix(v.Session, "followed-again-1-") || v.Status != "completed" {
		t.Fatalf("the follow-up is %+v", v)
	}
	if o := objectOf(t, v.Session); o.Owner != principal {
		t.Errorf("the follow-up is that of %q", o.Owner)
	}
}

// decidesByLogins has two people decide together who have no other key than that of their
// login.
func decidesByLogins(t *testing.T) {
	t.Helper()
	ca, err := os.ReadFile(filepath.Join(keys, "ca.pub"))
	if err != nil {
		t.Fatal(err)
	}
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	text := fmt.Sprintf("approvers: |\n  *@example.com cert-authority %s\nrequired: 2\n", strings.Join(strings.Fields(string(ca))[:2], " "))
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	logIn(t, "gil")
	startAs(t, "dora", "by-two", "--policy", policy)
	mustDo(t, "dora", "session", "send", "by-two", "need a command", "--no-wait")
	e2e.Open(t, "by-two", 1)
	mustNot(t, "fay", "allows approval.decide", "approval", "accept", "by-two.1")
	mustDo(t, "emil", "approval", "accept", "by-two.1")
	if v := e2e.Show(t, "by-two"); v.State != protocol.Waiting {
		t.Errorf("after one of two decisions the session is %s", v.State)
	}
	mustDo(t, "gil", "approval", "accept", "by-two.1")
	e2e.Idle(t, "by-two")
	if text := e2e.LastText(t, "by-two"); !strings.Contains(text, "it ran") {
		t.Errorf("the session says %q", text)
	}
}

// A schedule begins what its maker may begin, as long as they may.
func TestAScheduleBeginsInTheNameOfItsMakerUntilTheyAreRevoked(t *testing.T) {
	fires(t, "olaf", "olaf", "nightly")
	mustNot(t, "vera", "schedule.write", "schedule", "delete", "nightly")
	mustDo(t, "olaf", "schedule", "pause", "nightly", "--reason", "release week")
	mustDo(t, "olaf", "schedule", "resume", "nightly")
	onRecord(t, "schedule/nightly", "accepted olaf create", "accepted root trigger", "refused vera delete", "accepted olaf pause", "accepted olaf resume")
	file := filepath.Join(keys, "access.yaml")
	was, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := writeAccess(string(was)); err != nil {
			t.Error(err)
		}
	})
	if err := writeAccess(strings.Replace(string(was), "people: [dave]", "people: [dave, olaf]", 1)); err != nil {
		t.Fatal(err)
	}
	e2e.Until(t, "olaf's revocation to hold", func() (bool, error) {
		return strings.Contains(as(t, "olaf", "host", "set", "web-1", "--slots", "9").Stderr, "olaf is revoked"), nil
	})
	// A session that is refused does not use up its id.
	begin := []string{"session", "start", "--host", "web-1", "--seed", "team", "--id", "once-refused"}
	mustNot(t, "olaf", "olaf is revoked", begin...)
	e2e.OK(t, "schedule", "trigger", "nightly")
	var s schedule
	if err := e2e.Lab.JSON(e2e.Within(t), &s, "schedule", "show", "nightly"); err != nil || len(s.Recent) != 2 ||
		s.Recent[0].State != "failed" || !strings.Contains(s.Recent[0].Error, "olaf is revoked") || !strings.Contains(s.Recent[0].Error, "creates it anew") {
		t.Fatalf("the firing after it is %+v, %v", s, err)
	}
	if _, err := os.Stat(filepath.Join(e2e.Root, "sessions", s.Recent[0].ID)); !os.IsNotExist(err) {
		t.Errorf("the refused session has a folder: %v", err)
	}
	if err := writeAccess(string(was)); err != nil {
		t.Fatal(err)
	}
	e2e.Until(t, "olaf to start the session that was refused", func() (bool, error) {
		r := as(t, "olaf", begin...)
		if r.Code != 0 && !strings.Contains(r.Stderr, "olaf is revoked") {
			return false, errors.New(r.Stderr)
		}
		return r.Code == 0, nil
	})
	// Each file that came into force can be had again.
	if text := e2e.OK(t, "access", "show", "--version", audit.Digest(string(was))[:16], "--raw"); text != string(was) {
		t.Errorf("the access file of before is %s", text)
	}
	if o := objectOf(t, "once-refused"); o.Owner != "olaf" {
		t.Errorf("the session is that of %q", o.Owner)
	}
	// Who may decide depends on the owner of the session, which ctl asks for.
	if text := e2e.OK(t, "access", "why", "bob", "accept", "once-refused.1"); !strings.Contains(text, "approvers decide") {
		t.Errorf("why bob may decide: %s", text)
	}
	if r := e2e.Lab.Ctl(e2e.Within(t), nil, "access", "why", "olaf", "accept", "once-refused"); r.Code != 6 || !strings.Contains(r.Stdout, "approval.decide") {
		t.Errorf("why olaf may not decide: %v", r)
	}
	mustDo(t, "olaf", "session", "close", "once-refused")
}

// onRecord compares what people did to a schedule with its audit records.
func onRecord(t *testing.T, workflow string, want ...string) {
	t.Helper()
	all, err := lab.Lines[audit.Record](e2e.Within(t), e2e.Lab, "audit", "list", "--workflow", workflow)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range all {
		act, is := strings.CutPrefix(r.Object, workflow+"/")
		if is {
			act, _, _ = strings.Cut(act, "-")
			got = append(got, fmt.Sprint(r.Outcome, " ", r.Principal, " ", act))
		}
		if is && (r.Evidence.Signature == "" || r.Verb != string(access.ScheduleWrite)) {
			t.Errorf("the record is %+v", r)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("on record are %q, want %q", got, want)
	}
	e2e.OK(t, "audit", "verify", "--workflow", workflow)
}

// A schedule is as `ctl schedule show` has it.
type schedule struct {
	By     string
	Recent []struct{ ID, State, Status, Error string }
}

// fires creates a schedule as somebody, and has it begin a session, whose owner is who made
// the schedule.
func fires(t *testing.T, who, owner, name string) {
	t.Helper()
	mustDo(t, who, "schedule", "create", name, "--cron", "0 4 29 2 *", "--", "--host", "web-1", "--seed", "team", "hello")
	t.Cleanup(func() {
		if r := e2e.Lab.Ctl(context.Background(), nil, "schedule", "delete", name); r.Code != 0 {
			t.Error(r)
		}
	})
	e2e.OK(t, "schedule", "trigger", name)
	var s schedule
	e2e.Until(t, "the end of what schedule "+name+" begins", func() (bool, error) {
		s = schedule{}
		err := e2e.Lab.JSON(e2e.Within(t), &s, "schedule", "show", name)
		return len(s.Recent) == 1 && s.Recent[0].State != "running", err
	})
	if s.By != owner || s.Recent[0].State != "completed" || s.Recent[0].Status != "completed" {
		t.Fatalf("schedule %s: %+v", name, s)
	}
	if o := objectOf(t, s.Recent[0].ID); o.Owner != owner {
		t.Errorf("schedule %s began a session of %q, want %q", name, o.Owner, owner)
	}
}

// objectOf returns what conditions of the access file see of a session.
func objectOf(t *testing.T, session string) (o access.Object) {
	t.Helper()
	ctx := e2e.Within(t)
	c, err := e2e.Lab.Temporal(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	v, err := c.QueryWorkflow(ctx, protocol.SessionID(session), "", protocol.QueryObject)
	if err == nil {
		err = v.Get(&o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// ofPerson are the arguments of ctl for somebody, who has a state folder of their own if they
// log in.
func ofPerson(who string, args ...string) []string {
	out := []string{"--config", filepath.Join(keys, who+".yaml")}
	if slices.Contains([]string{"dora", "emil", "fay", "gil"}, who) {
		out = append(out, "--state", filepath.Join(keys, who+"-state"))
	}
	return append(out, args...)
}
