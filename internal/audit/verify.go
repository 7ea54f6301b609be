package audit

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/sshsig"
)

// A Fault is a record that does not hold.
type Fault struct {
	Entity string `json:"entity"`
	Seq    int64  `json:"seq"` // 0 if the record has none
	Reason string `json:"reason"`
}

func (f *Fault) Error() string {
	return fmt.Sprintf("record %d of %s does not hold: %s", f.Seq, f.Entity, f.Reason)
}

// A Log is the records of one chain.
type Log struct {
	Entity  string
	Records []Record
	Lines   []string // of the records
	// Strays are records beside the chain, which a worker wrote that died before its task was
	// done. What they say did not happen then. Along finds them.
	Strays []Record
	unsure bool // several records could be the newest one
}

// Sort reads lines and sorts them by chains and seq. A line that is there twice counts once.
// The fault is a line that is no record.
func Sort(lines []string) (logs []Log, fault *Fault) {
	seen := map[string]bool{}
	of := map[string]int{}
	for i, line := range lines {
		if seen[line] {
			continue
		}
		seen[line] = true
		r, err := Parse(line)
		if err != nil {
			return logs, &Fault{Entity: fmt.Sprintf("line %d", i+1), Reason: err.Error()}
		}
		at, ok := of[r.Entity]
		if !ok {
			at, of[r.Entity] = len(logs), len(logs)
			logs = append(logs, Log{Entity: r.Entity})
		}
		logs[at].Records = append(logs[at].Records, r)
		logs[at].Lines = append(logs[at].Lines, line)
	}
	for i := range logs {
		logs[i].sort()
	}
	slices.SortFunc(logs, func(a, b Log) int { return cmp.Compare(a.Entity, b.Entity) })
	return logs, nil
}

func (l *Log) sort() {
	order := make([]int, len(l.Records))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(l.Records[a].Seq, l.Records[b].Seq) })
	sorted := Log{Entity: l.Entity}
	for _, i := range order {
		sorted.Records = append(sorted.Records, l.Records[i])
		sorted.Lines = append(sorted.Lines, l.Lines[i])
	}
	*l = sorted
}

// Verify returns the first record of a chain that does not hold, or nil. If head is not
// nil, the chain must reach it.
func (l Log) Verify(head *protocol.AuditHead) *Fault {
	l = l.Along(head)
	prev, n := "", int64(0)
	var cut *Fault // the first record that nothing proves
	for i, r := range l.Records {
		fault := func(format string, args ...any) *Fault {
			return &Fault{Entity: l.Entity, Seq: r.Seq, Reason: fmt.Sprintf(format, args...)}
		}
		switch {
		case r.Seq != n+1:
			return &Fault{Entity: l.Entity, Seq: n + 1, Reason: fmt.Sprintf("it is missing: the next one there is number %d", r.Seq)}
		case r.Prev != prev:
			return fault("its prev is %s, and the record before has %s: one of the two was changed", shown(r.Prev), shown(prev))
		}
		switch err := r.proven(); {
		case errors.Is(err, errCut) && cut == nil:
			cut = fault("%v", err)
		case err != nil && !errors.Is(err, errCut):
			return fault("%v", err)
		}
		prev, n = digest(l.Lines[i]), r.Seq
		if head != nil && head.Seq == n && head.Hash != prev {
			return fault("its digest is %s, and its writer reports %s: the chain was replaced", shown(prev), shown(head.Hash))
		}
	}
	if head != nil && n < head.Seq {
		return &Fault{Entity: l.Entity, Seq: n + 1, Reason: fmt.Sprintf("it is missing: the writer has made %d records, and the newest were cut off", head.Seq)}
	}
	for _, r := range l.Strays {
		if fault := l.stray(r); fault != nil {
			return fault
		}
	}
	return cut // only if the whole chain holds otherwise
}

// Reaches returns a fault unless the chain, which holds, has a record with this seq and digest.
func (l Log) Reaches(seq int64, hash string) *Fault {
	n := int64(len(l.Lines))
	switch {
	case seq > n:
		return &Fault{Entity: l.Entity, Seq: n + 1, Reason: fmt.Sprintf("it is missing: there were %d records, and the newest were cut off", seq)}
	case seq < 1:
		return nil
	}
	if is := digest(l.Lines[seq-1]); is != hash {
		return &Fault{Entity: l.Entity, Seq: seq, Reason: fmt.Sprintf("its digest is %s, and it was another one: the chain was replaced", shown(is))}
	}
	return nil
}

// errCut says that a record cannot be proven.
var errCut = errors.New("nothing proves it: its signature was too long for a record, which has only the digest")

func shown(hash string) string {
	if hash == "" {
		return "none"
	}
	return hash
}

// proven reports whether the evidence is for what the record says. A refused command needs no
// good signature. Any key will do: whose it is, the access file of that time says.
func (r Record) proven() error {
	e := r.Evidence
	if r.Outcome == Refused {
		return nil
	}
	if err := r.Decision.proven(); err != nil {
		return err
	}
	if e.Signature == "" {
		if r.Source == Key || r.Source == Certificate {
			return errors.New("its source says that it was signed, and it has no signature")
		}
		return nil
	}
	if r.Source != Key && r.Source != Certificate {
		return nil // nobody verified the signature when the command was accepted
	}
	s, err := command.ParseStatement([]byte(e.Message))
	switch {
	case err != nil:
		return fmt.Errorf("its signed message cannot be read: %w", err)
	case s.Principal != r.Principal:
		return fmt.Errorf("its message names %.100q and not its principal", s.Principal)
	case s.Args != e.Args:
		return errors.New("its message has another digest of the arguments")
	case clip(s.Workflow, maxText) != r.Object:
		return fmt.Errorf("its message is for %.100q and not for its object", s.Workflow)
	case !Knows(r.Verb, s.Name):
		return fmt.Errorf("its message is a command %.100q, and that is none of %.100q", s.Name, r.Verb)
	}
	if err := r.near(s.At, slices.Contains(stands, s.Name)); err != nil {
		return err
	}
	if e.Cut {
		return errCut
	}
	key, err := sshsig.Holds([]byte(e.Signature), []byte(e.Certificate), command.Namespace, []byte(e.Message))
	if err != nil {
		return fmt.Errorf("its signature is not of its message: %w", err)
	}
	if _, is := key.(*ssh.Certificate); is != (r.Source == Certificate) {
		return errors.New("its source and its key do not fit")
	}
	return nil
}

// Knows reports whether a principal needs a verb for the commands of a name.
func Knows(verb, name string) bool { return slices.Contains(namesOf[verb], name) }

// namesOf has the commands by the verb that a principal needs for them.
var namesOf = map[string][]string{
	"session.start":     {protocol.TypeSession},
	"session.message":   {protocol.SignalMessage, protocol.SignalUnsend},
	"approval.decide":   {protocol.SignalDecide},
	"session.interrupt": {protocol.SignalInterrupt},
	"session.close":     {protocol.SignalClose},
	"session.set":       {protocol.SignalBudget, protocol.SignalSet, protocol.SignalModels},
	"session.park":      {protocol.SignalPark, protocol.SignalArchive, protocol.SignalUnarchive, protocol.SignalResume},
	"session.exec":      {protocol.UpdatePush},
	"snapshot.write":    {protocol.SignalSnapshot, protocol.TypePrune, protocol.TypeCheckSnapshots},
	"host.write": {protocol.UpdatePutHost, protocol.UpdatePutHosts, protocol.UpdateRemoveHost, protocol.UpdateSetHost, protocol.UpdateSetPool, protocol.UpdatePausePool,
		protocol.TypeProvision, protocol.TypeCheck, protocol.TypeScan},
	"host.exec": {protocol.TypeExec},
	"seed.write": {protocol.UpdatePutSeed, protocol.UpdateSetSeed, protocol.UpdateReviveSeed, protocol.UpdateDeleteSeed, protocol.UpdateVerifySeed,
		protocol.TypeCapture, protocol.TypeLogin, protocol.TypeRotate, protocol.TypeRecover},
	"seed.export":    {protocol.UpdateExportSeed},
	"batch.run":      {protocol.TypeBatch, protocol.SignalCancelBatch, protocol.SignalRetryBatch, protocol.SignalSetBatch},
	"schedule.write": {protocol.TypeFire},
	"notify.test":    {protocol.UpdateTestNotify},
}

// stands are the commands that count again and again, for as long as a Schedule exists.
var stands = []string{protocol.TypeFire}

// maxWait is how old a command may be that Temporal kept while no worker was up. The clocks of
// its signer, a worker and Temporal differ.
const maxWait = 24 * time.Hour

// near reports whether a command could count when the record was made.
func (r Record) near(signed string, stands bool) error {
	at, err := time.Parse(time.RFC3339Nano, r.At)
	if err != nil {
		return fmt.Errorf("its time cannot be read: %w", err)
	}
	was, err := time.Parse(time.RFC3339Nano, signed)
	if err != nil {
		return fmt.Errorf("the time of its message cannot be read: %w", err)
	}
	if d := at.Sub(was); d < -2*command.MaxSkew || d > maxWait+2*command.MaxSkew && !stands {
		return fmt.Errorf("its message was signed at %s, and could not count at %s", signed, r.At)
	}
	return nil
}
