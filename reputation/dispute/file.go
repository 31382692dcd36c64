package dispute

import (
	"cmp"
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
)

// Rules are the node's settings for new signals and disputes.
type Rules struct {
	Short, Long time.Duration
	Deadline    time.Duration
}

// DefaultRules are the seed's windows, and three days for each dispute.
var DefaultRules = Rules{Short: 24 * time.Hour, Long: 72 * time.Hour, Deadline: 72 * time.Hour}

// Bounds on what comes in. Disputes against one agent are not bounded: its friends could use the bound up.
const (
	MaxRunning  = 64  // open signals of one agent
	MaxAccusing = 20  // unresolved disputes of one challenger
	OfOneOwner  = 100 // times as many for all agents of one owner together
	MaxSessions = 16  // behind the receipts of one dispute
	// MaxViolations bounds one agent's entered violations per day; more could not raise Q.
	MaxViolations = 8
)

// By describes a document's author, whose signature the node has verified. Only registered agents may dispute.
type By struct {
	Registered time.Time // since when; zero for an unregistered agent
}

// Publication is an incoming signal.
type Publication struct {
	Signal Signal
	By     By
	// Observed says that the node holds all receipts, of the same agent. The rest is as in [Published].
	Observed bool
	Sources  bool
	Cites    []string
}

// Publish checks an incoming signal. The entry is nil if the same signal was published before.
func (b *Book) Publish(r Rules, p Publication, now time.Time) (*Entry, error) {
	s, at := p.Signal, b.Time(now)
	hash, err := HashOf(s)
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(checkDocument(s), fresh(s, now)); err != nil {
		return nil, err
	}
	if before := b.signal(s.SignalID); before != nil {
		if before.Document == hash {
			return nil, nil
		}
		return nil, refusal.New("id_taken", "another signal has the id %s", s.SignalID)
	}
	if err := b.full(openSignals, s.AgentID, "open signals", MaxRunning, p.By, now); err != nil {
		return nil, err
	}
	window := r.Short
	if s.Horizon == HorizonLong {
		window = r.Long
	}
	e := &Published{
		SignalID: s.SignalID, Agent: s.AgentID, Document: hash, Horizon: s.Horizon, Written: s.Timestamp,
		Closes: at + seconds(window), Basis: BasisDeclared,
	}
	if !p.By.Registered.IsZero() {
		e.Registered = p.By.Registered.Unix()
	}
	if s.RestsOn != nil && len(s.RestsOn.Receipts) > 0 {
		e.Receipts, e.Sources = s.RestsOn.Receipts, p.Sources
		e.Cites = slices.Compact(slices.Sorted(slices.Values(p.Cites)))
		if p.Observed {
			e.Basis = BasisObserved
		}
	}
	entry := &Entry{At: at, Signal: e}
	if len(e.Cites) > 0 { // nothing else can be too long
		if _, err := entry.Encode(); err != nil {
			return nil, malformed("rests on receipts of agents whose ids are too long together: %w", err)
		}
	}
	return entry, nil
}

// seconds returns a duration in seconds, at least one.
func seconds(d time.Duration) int64 { return max(1, int64(d/time.Second)) }

// Known is a receipt that the node holds, or that the filing brings with a valid signature.
type Known struct {
	Hash    string
	Agent   string
	Session string
	// At is when the node got the last receipt of the session (Unix seconds), or now if it has none. The time of signing
	// is only the sidecar's word.
	At int64
}

// Filed is an incoming filing.
type Filed struct {
	Filing   Filing
	By       By
	Receipts []Known // the known ones among [Book.Named]
}

// Named returns the hashes of the receipts that a filing disputes.
func (b *Book) Named(f Filing) []string {
	if f.Challenge != nil {
		return f.Challenge.TargetReceipts
	}
	if s := b.signal(f.Contract.OriginalSignalID); s != nil && len(f.Contract.TargetReceipts) == 0 &&
		f.Type() != TypeGeneral {
		return s.Receipts
	}
	return f.Contract.TargetReceipts
}

// RowsOf returns the ids of rows that filing reads: see [RowsOf].
func (b *Book) RowsOf(f Filing) []string {
	hash, _ := HashOf(f.Document())
	if c := f.Contract; c != nil {
		s, _ := b.Signal(c.OriginalSignalID)
		return append(RowsOf(c.OriginalSignalID, DisputeID(hash), c.ChallengerAgentID, s.Agent),
			rowContract+c.ChallengerAgentID+" "+c.ChallengeID)
	}
	return RowsOf("", DisputeID(hash), f.Challenge.ChallengerID, f.Challenge.TargetID)
}

// substance returns the hash of a filing's meaning. It leaves out what an agent can change without saying anything new:
// ids, times, signatures, the order of receipts, and words where receipts decide.
func (b *Book) substance(f Filing, o Opened) (string, error) {
	words := []string{}
	switch {
	case o.Type != TypeGeneral:
	case f.Contract != nil:
		words = []string{f.Contract.CounterClaim, f.Contract.ReasoningTrace}
	default:
		words = []string{f.Challenge.Evidence}
	}
	receipts := slices.Sorted(slices.Values(o.Receipts))
	return evidence.HashValue(struct {
		Challenger string   `json:"challenger_id"`
		Target     string   `json:"target_id"`
		Signal     string   `json:"signal_id"`
		Type       string   `json:"challenge_type"`
		Receipts   []string `json:"target_receipts"`
		Words      []string `json:"words"`
	}{o.Challenger, o.Target, o.SignalID, o.Type, append([]string{}, receipts...), words})
}

// File returns the dispute's id and the entry that opens it, or opens it again after an appeal; the entry is nil if the
// same document has. A refused filing can come with a violation entry.
func (b *Book) File(r Rules, f Filed, now time.Time) (id string, e *Entry, err error) {
	d := f.Filing.Document()
	if d == nil {
		return "", nil, malformed("is neither a contract nor a challenge")
	}
	hash, err := HashOf(d)
	if err != nil {
		return "", nil, err
	}
	if b.has(rowDispute + DisputeID(hash)) {
		return DisputeID(hash), nil, nil
	}
	if err := cmp.Or(checkDocument(d), fresh(d, now)); err != nil {
		return "", nil, err
	}
	if f.Filing.Type() == TypeAppeal {
		return b.appeal(r, f.Filing.Challenge, hash, now)
	}
	if f.By.Registered.IsZero() {
		return "", nil, refusal.New("dispute_refused", "the agent %.300q has passed no verification", Author(d))
	}
	o, disputed, err := b.opening(r, f, hash, now)
	if err != nil {
		return "", nil, err
	}
	if o.Challenger == o.Target {
		return "", nil, refusal.New("dispute_refused", "the agent disputes itself")
	}
	if !f.By.Registered.Before(time.Unix(disputed, 0)) {
		return "", nil,
			refusal.New("dispute_refused", "the agent was registered at %s, after the object of its dispute was made",
				f.By.Registered.UTC().Format(time.RFC3339))
	}
	if rule, err := b.breaks(o, f.By, now); err != nil {
		return "", b.violation(rule, o, now), err
	}
	if o.ContractID != "" && b.has(contractRow(&o)) {
		return "", nil, refusal.New("id_taken", "another contract of the agent has the id %s", o.ContractID)
	}
	if err := b.full(accusing, o.Challenger, "unresolved disputes", MaxAccusing, f.By, now); err != nil {
		return "", nil, err
	}
	o.Standing = b.Standing(o.Challenger, f.By.Registered, now)
	return o.DisputeID, &Entry{At: b.Time(now), Opened: &o}, nil
}

// opening makes the dispute of a filing and returns the time of the disputed object.
func (b *Book) opening(r Rules, f Filed, hash string, now time.Time) (o Opened, disputed int64, err error) {
	o = Opened{
		DisputeID: DisputeID(hash), Challenger: Author(f.Filing.Document()), Type: f.Filing.Type(),
		Receipts: b.Named(f.Filing), Document: hash, Deadline: b.Time(now) + seconds(r.Deadline),
		Registered: f.By.Registered.Unix(),
	}
	if c := f.Filing.Contract; c != nil {
		s := b.signal(c.OriginalSignalID)
		if s == nil {
			return o, 0, refusal.New("not_found", "there is no signal %s", c.OriginalSignalID)
		}
		o.Target, o.SignalID, o.ContractID, disputed = s.Agent, s.SignalID, c.ChallengeID, s.At
		if s.Final {
			return o, disputed, nil // refused later for any receipts
		}
	} else {
		o.Target = f.Filing.Challenge.TargetID
		disputed = b.Time(now)
		for _, k := range f.Receipts {
			if slices.Contains(o.Receipts, k.Hash) { // other receipts could be of any time
				disputed = min(disputed, k.At)
			}
		}
	}
	if err := b.known(&o, f.Receipts); err != nil {
		return o, 0, err
	}
	o.Substance, err = b.substance(f.Filing, o)
	return o, disputed, err
}

// known refuses unknown receipts and another agent's: made-up hashes accuse no one. It refuses receipts from before a
// lost dispute too, since no agent loses twice by them.
func (b *Book) known(o *Opened, receipts []Known) error {
	sessions, lost := make(map[string]bool), b.agent(o.Target).Fell
	for _, hash := range o.Receipts {
		at := slices.IndexFunc(receipts, func(k Known) bool { return k.Hash == hash })
		if at < 0 {
			return refusal.New("dispute_receipts", "the node does not have the receipt %s, and the dispute does not include it",
				hash)
		}
		if receipts[at].Agent != o.Target {
			return refusal.New("dispute_receipts", "the receipt %s does not belong to the accused agent", hash)
		}
		if o.Type != TypeGeneral && receipts[at].At <= lost {
			return refusal.New("dispute_receipts",
				"the receipt %s no longer counts: the accused agent lost a dispute later, at %s",
				hash, time.Unix(lost, 0).UTC().Format(time.RFC3339))
		}
		sessions[receipts[at].Session] = true
	}
	switch {
	case o.Type != TypeGeneral && len(o.Receipts) == 0:
		return refusal.New("dispute_receipts", "a dispute of type %s must name receipts, or a signal that rests on receipts",
			o.Type)
	case len(sessions) > MaxSessions:
		return refusal.New("dispute_receipts", "the receipts span %d sessions; at most %d are allowed", len(sessions),
			MaxSessions)
	}
	return nil
}

func (b *Book) breaks(o Opened, by By, now time.Time) (rule string, err error) {
	if s := b.signal(o.SignalID); s != nil && (s.Final || b.Time(now) >= s.Closes) {
		return RuleWindow, refusal.New("dispute_closed", "the signal %s could be disputed until %s",
			s.SignalID, time.Unix(s.Closes, 0).UTC().Format(time.RFC3339))
	}
	if before := b.repeated(o.Substance); before != "" {
		return RuleIdentical, refusal.New("dispute_closed", "the earlier dispute %s says the same", before)
	}
	if wait := b.wait(o.Challenger, by, now); wait > 0 {
		return RuleRate, refusal.Later{
			Refusal: refusal.New("dispute_rate", "the agent has a standing of %d days; a dispute takes %d",
				b.Standing(o.Challenger, by.Registered, now), Stake),
			Seconds: int(wait),
		}
	}
	return "", nil
}

// violation returns the entry of a violation, or nil if it is recorded or the agent has enough today.
func (b *Book) violation(rule string, o Opened, now time.Time) *Entry {
	at, challenger := b.Time(now), b.agent(o.Challenger)
	had := len(challenger.Violations) - MaxViolations
	if challenger.noted(o.Document) || had >= 0 && challenger.Violations[had].At > at-day {
		return nil
	}
	return &Entry{At: at, Violation: &Violation{Agent: o.Challenger, Rule: rule, Document: o.Document}}
}
