package conversation

// notification folds one of codex's notifications. Unknown ones go to the sink if
// it is a RawSink.
func (m *machine) notification(msg *message) {
	p := msg.Params
	if of := pieceOf(msg.Method); of != "" {
		if d, ok := slowPiece(of, p); ok {
			m.turns.delta(d)
		}
		return
	}
	switch msg.Method {
	case "item/started":
		m.turns.itemStarted(p)
	case "item/completed":
		m.turns.itemCompleted(p)
	case "item/fileChange/patchUpdated":
		m.items.patchUpdated(p)
	case "serverRequest/resolved":
		m.resolvedBy(p)
	case "turn/started":
		m.turns.started(p, msg.EmittedAtMS)
	case "turn/completed":
		m.turns.completed(p)
	case "turn/aborted", "turn_aborted", "codex/event/turn_aborted":
		m.turns.aborted(p)
	case "thread/goal/updated", "thread/goal/cleared":
		m.turns.goalChanged(msg.Method, p)
		m.raw(msg.Method, p)
	case "turn/diff/updated":
		m.turns.diffUpdated(p)
	case "account/rateLimits/updated":
		m.turns.rateLimitsUpdated(p)
	case "thread/tokenUsage/updated":
		m.turns.usageUpdated(p)
	case "thread/status/changed":
		m.turns.statusChanged(p)
	case "thread/closed", "thread/deleted":
		m.turns.threadClosed(p)
	case "error":
		m.turns.errorNotice(p)
	case "warning", "configWarning", "guardianWarning":
		m.turns.warning(p)
	case "account/login/completed":
		if m.opt.Broker != nil {
			m.logins.loginCompleted(p)
			return
		}
		fallthrough
	default:
		m.raw(msg.Method, p)
	}
}
