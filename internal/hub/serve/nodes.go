package serve

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/hub/store"
	"github.com/golem-forge/golem/internal/records/state"
)

// take gives a node a job. A new attempt begins with it.
func (b *board) take(u hub.User, o hub.Offer) (*hub.Job, error) {
	labels, err := hub.CheckLabels(o.Labels)
	if err != nil {
		return nil, invalid("%v", err)
	}
	nodeList{b}.noteNode(u, labels, o)
	if _, err := (revisions{b}).compare(u, o.Known); err != nil {
		return nil, err
	}
	all := lanes(labels)
	until := b.now().Add(min(o.Wait, 20*time.Second))
	for {
		changed := b.index.changed()
		used := b.index.used(all) // a node cannot make parts of the queue by naming labels
		for _, lane := range used {
			j, err := b.takeFrom(u, lane, min(o.Wait, time.Second)/time.Duration(len(used)))
			if err != nil || j != nil {
				return j, err
			}
		}
		left := until.Sub(b.now())
		if b.ctx.Err() != nil || left <= 0 {
			return nil, nil
		}
		if len(used) == 0 {
			select {
			case <-b.ctx.Done():
			case <-changed:
			case <-time.After(left):
			}
		}
	}
}

func (b *board) takeFrom(u hub.User, lane string, wait time.Duration) (*hub.Job, error) {
	task, ok, err := b.queue.Take(lane, wait)
	if err != nil || !ok {
		return nil, err
	}
	if _, ok := b.index.user(u.Key); !ok { // it was revoked while it waited
		return nil, errors.Join(refused("the hub does not know this key any more; ask an administrator for new credentials"), b.queue.Return(task.Receipt))
	}
	if _, err := (revisions{b}).compare(u, nil); err != nil { // somebody noticed meanwhile that the data is older
		return nil, errors.Join(err, b.queue.Return(task.Receipt))
	}
	var t turn
	if err := json.Unmarshal(task.Data, &t); err != nil {
		return nil, errors.Join(err, b.queue.Done(task.Receipt))
	}
	j, err := b.update(t.Job, func(j *hub.Job) error {
		again := j.State == hub.Running && sequence(j.Receipt) == sequence(task.Receipt) // its node was silent for too long
		if t.Turn != j.Turn || j.State != hub.Queued && !again {
			return errSame
		}
		if j.Cancel {
			j.State, j.Result.Why = hub.Cancelled, "cancelled"
			return nil
		}
		j.State, j.Node, j.Receipt = hub.Running, u.Key, task.Receipt
		j.Attempt++
		return nil
	})
	if hub.IsCode(err, hub.CodeMissing) || err == nil && (j.Receipt != task.Receipt || j.State != hub.Running) {
		return nil, b.queue.Done(task.Receipt) // the job is over, or it has another task
	}
	if err != nil {
		return nil, err
	}
	log, err := b.store.Log("job-"+j.ID, 0)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	tail, err := log.Tail()
	j.Receipt, j.Events = "", tail.Count
	return &j, err
}

// sequence returns the part of a receipt that names its task.
func sequence(receipt string) string {
	// $JS.ACK.<stream>.<consumer>.<delivered>.<stream sequence>.…, perhaps with a domain and
	// an account before the stream.
	parts := strings.Split(receipt, ".")
	at := 5
	if len(parts) >= 11 {
		at = 7
	}
	if len(parts) <= at {
		return receipt
	}
	return parts[at]
}

// maxHeld limits the size of a job that a node changes.
const maxHeld = store.MaxValue * 3 / 4

// held changes a job that a node holds. A node whose attempt is not the current one is refused.
func (b *board) held(u hub.User, a hub.Attempt, change func(*hub.Job) error) (hub.Job, error) {
	return b.update(a.Job, func(j *hub.Job) error {
		if j.State != hub.Running || j.Node != u.Key || j.Attempt != a.Number {
			return stale(a.Job)
		}
		if err := change(j); err != nil {
			return err
		}
		// People must still be able to change the job.
		if text, err := json.Marshal(j); err != nil || len(text) > maxHeld {
			return invalid("job %s would take more than %d bytes; send less with it", j.ID, maxHeld)
		}
		return nil
	})
}

// look is held for somebody who changes nothing.
func (b *board) look(u hub.User, a hub.Attempt) (hub.Job, error) {
	return b.held(u, a, func(*hub.Job) error { return errSame })
}

func (b *board) beat(u hub.User, a hub.Attempt) (cancel bool, err error) {
	j, err := b.look(u, a)
	if err == nil {
		err = b.queue.Beat(j.Receipt)
	}
	if err == nil {
		nodeList{b}.seeNode(u)
	}
	return j.Cancel, err
}

// checkpoint keeps where another node could continue. All its files must have been sent.
func (b *board) checkpoint(u hub.User, p hub.Checkpoint) error {
	if err := checkCheckpoint(p); err != nil {
		return err
	}
	// If the node asks twice, the second request waits until the first has removed what it replaced:
	// then the node sends more, perhaps the same again.
	changing := b.changing.of(p.Job)
	changing.Lock()
	defer changing.Unlock()
	j, err := b.look(u, p.Attempt)
	if err != nil {
		return err
	}
	begin, err := b.contents.list(ofUser(j.User), j.Files)
	if err != nil {
		return err
	}
	if err := b.contents.complete(ofJob(j.ID), p.Files, begin); err != nil {
		return err
	}
	if err := b.addEvents(j.ID, p.First, p.Lines); err != nil {
		return err
	}
	before := j.Checkpoint
	j, err = b.held(u, p.Attempt, func(j *hub.Job) error {
		if p.Journal.Count < j.Journal.Count || j.Journal.Count > 0 && p.Journal.Count == j.Journal.Count && p.Journal.Hash != j.Journal.Hash {
			b.tell("node %s sent a journal of job %s that lacks records which it had before", u.Name, j.ID)
			return invalid("the journal of job %s lacks records that it had before", j.ID)
		}
		j.Checkpoint, j.Journal = p.Files, p.Journal
		if j.Taint == "" {
			j.Taint = cut(p.Taint)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if before != "" && before != p.Files {
		b.at(stepReplaced)
		b.forgetCheckpoint(u, p.Attempt, j, before)
	}
	return nil
}

// forgetCheckpoint removes the contents of an earlier checkpoint that the job no longer needs.
// If it fails, they only take space.
func (b *board) forgetCheckpoint(u hub.User, a hub.Attempt, j hub.Job, before string) {
	if now, err := b.look(u, a); err != nil || now.Checkpoint != j.Checkpoint { // another attempt may need them
		return
	}
	old, err := b.contents.list(ofJob(j.ID), before)
	if err != nil {
		return
	}
	now, err := b.contents.list(ofJob(j.ID), j.Checkpoint)
	if err != nil {
		return
	}
	for hash := range old {
		asked := slices.ContainsFunc(j.Requests, func(r hub.Request) bool { return r.Hash == hash })
		if !now[hash] && !asked {
			b.contents.remove(ofJob(j.ID), hash)
		}
	}
}

// addEvents adds the events of a job that are not there yet.
func (b *board) addEvents(job string, first uint64, lines [][]byte) error {
	if len(lines) == 0 {
		return nil
	}
	if slices.ContainsFunc(lines, func(line []byte) bool { return !json.Valid(line) }) {
		return invalid("an event is no JSON")
	}
	log, err := b.store.Log("job-"+job, 0)
	if err != nil {
		return err
	}
	defer log.Close()
	return log.Append(true, func(tail state.Tail) ([][]byte, []byte, error) {
		if first == 0 || first > tail.Count+1 {
			return nil, nil, invalid("events are missing: there are %d, and the next one has the number %d", tail.Count, first)
		}
		return lines[min(uint64(len(lines)), tail.Count+1-first):], nil, nil
	})
}

// maxQuestions limits the requests of a job.
const maxQuestions = 1000

// plainRequest is how ids of requests look. People type them.
var plainRequest = regexp.MustCompile(`^[a-z0-9]{1,40}$`)

// question keeps which calls of a job wait for a decision.
func (b *board) question(u hub.User, q hub.Question) error {
	for _, r := range q.Requests {
		if err := checkRequest(r); err != nil {
			return err
		}
		if _, ok, err := b.contents.size(ofJob(q.Job), r.Hash); err != nil {
			return err
		} else if !ok {
			return invalid("the request %.40s was not sent", r.ID)
		}
	}
	_, err := b.held(u, q.Attempt, func(j *hub.Job) error {
		for _, r := range q.Requests {
			if slices.ContainsFunc(j.Requests, func(known hub.Request) bool { return known.ID == r.ID && known.Hash == r.Hash }) {
				continue
			}
			if len(j.Requests) >= maxQuestions {
				return invalid("the job has asked about %d calls already", len(j.Requests))
			}
			r.Decided, r.Since = nil, b.now()
			j.Requests = append(slices.DeleteFunc(j.Requests, func(known hub.Request) bool { return known.ID == r.ID }), r)
		}
		return nil
	})
	return err
}

// decisions returns the requests of a job. It waits until one more has a decision.
func (b *board) decisions(u hub.User, q hub.DecisionsQuery) ([]hub.Request, error) {
	over := time.NewTimer(min(q.Wait, 20*time.Second))
	defer over.Stop()
	before := -1
	for {
		changed := b.index.changed()
		j, err := b.look(u, q.Attempt)
		if err != nil {
			return nil, err
		}
		decided := 0
		for _, r := range j.Requests {
			if r.Decided != nil {
				decided++
			}
		}
		if before >= 0 && decided > before || q.Wait <= 0 {
			return j.Requests, nil
		}
		before = decided
		select {
		case <-over.C:
			return j.Requests, nil
		case <-b.ctx.Done():
			return j.Requests, nil
		case <-changed:
		}
	}
}

// pause takes a job back that waits for decisions. If one came meanwhile, it is queued again.
// If it was cancelled meanwhile, it is over.
func (b *board) pause(u hub.User, a hub.Attempt) error {
	j, err := b.held(u, a, func(j *hub.Job) error {
		if j.State = hub.Waiting; j.Cancel {
			j.State, j.Result.Why = hub.Cancelled, "cancelled"
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := b.queue.Done(j.Receipt); err != nil {
		return err
	}
	return b.resume(j.ID)
}

// resume queues a waiting job again, if one of its open requests has a decision.
func (b *board) resume(id string) error {
	j, err := b.update(id, func(j *hub.Job) error {
		if j.State != hub.Waiting {
			return errSame
		}
		open := 0
		for _, r := range j.Requests {
			if r.Decided == nil {
				open++
			}
		}
		if open > 0 {
			return errSame
		}
		j.State, j.Node = hub.Queued, ""
		j.Turn++
		return nil
	})
	if err != nil || j.State != hub.Queued {
		return err
	}
	return b.enqueueJob(j)
}

// endAttempt ends an attempt.
func (b *board) endAttempt(u hub.User, e hub.End) error {
	if e.State != hub.Done && e.State != hub.Failed && e.State != hub.Cancelled && e.State != hub.InDoubt && e.State != hub.Queued {
		return invalid("an attempt does not end as %.20q", e.State)
	}
	if err := errors.Join(checkResult(e.Result), checkDoubt(e.Doubt)); err != nil {
		return err
	}
	j, err := b.held(u, e.Attempt, func(j *hub.Job) error {
		began := e.Number
		if e.Doubt != nil {
			kept, ok, err := b.fence.Look(fenceKey(*j, e.Doubt.Call, ""))
			if err != nil {
				return err
			}
			if ok {
				began = claimant(kept)
			}
		}
		if j.State, j.Result = e.State, e.Result; e.State == hub.Queued { // the node stops, and another one continues
			j.Turn++
			j.Node = ""
		}
		if e.Doubt != nil && e.State == hub.InDoubt {
			j.Doubts = append(j.Doubts, hub.Doubt{Call: e.Doubt.Call, Tool: e.Doubt.Tool, Attempt: began})
		}
		return nil
	})
	if hub.IsCode(err, hub.CodeStale) { // the same request may have come twice
		known, _, second := b.readJob(e.Job)
		if second == nil && known.Attempt == e.Number && known.Node == u.Key && known.State == e.State {
			return nil
		}
		return err
	}
	if err != nil {
		return err
	}
	if j.State.IsOver() && j.Attempt > 1 {
		remover{b}.dropLeftovers(j)
	}
	if err := b.queue.Done(j.Receipt); err != nil || j.State != hub.Queued {
		return err
	}
	return b.enqueueJob(j)
}

// A decideInput is a signed decision about a request of a job.
type decideInput struct {
	Job    string     `json:"job"`
	Signed hub.Signed `json:"signed"`
}

// decide keeps a decision, if its signature is of an approver that the job names. The first
// valid one counts.
func (b *board) decide(u hub.User, in decideInput) error {
	j, _, err := b.readJob(in.Job)
	if err != nil {
		return err
	}
	spec, err := hub.OpenSpec(j.Spec)
	if err != nil {
		return err
	}
	var said hub.Decision
	if err := json.Unmarshal(in.Signed.Text, &said); err != nil {
		return invalid("the decision cannot be read")
	}
	at := slices.IndexFunc(j.Requests, func(r hub.Request) bool { return r.ID == said.Request })
	if at < 0 {
		return missing("no request %.40q of job %s", said.Request, j.ID)
	}
	d, err := hub.OpenDecision(in.Signed, spec, j.Requests[at])
	if err != nil {
		return invalid("%v", err)
	}
	if d.By != u.Key {
		return invalid("the decision is signed by somebody else")
	}
	text, err := json.Marshal(in.Signed)
	if err != nil {
		return err
	}
	kept, first, err := b.decided.Decide(decisionKey(j.ID, j.Requests[at]), text)
	if err != nil {
		return err
	}
	// An earlier decision may not be in the job: the hub died, or a node asked again.
	if err := b.keepDecision(j.ID, j.Requests[at], kept); err != nil {
		return err
	}
	if err := b.resume(j.ID); err != nil {
		return err
	}
	if !first && string(kept) != string(text) {
		return &hub.Error{Code: hub.CodeDecided, Text: "somebody decided about " + d.Request + " of job " + j.ID + " before"}
	}
	return nil
}

// decisionKey returns the key of the decision about a request.
func decisionKey(job string, r hub.Request) string { return job + " " + r.ID + " " + r.Hash }

// keepDecision adds a decision about a request to its job.
func (b *board) keepDecision(job string, about hub.Request, kept []byte) error {
	var signed hub.Signed
	if err := json.Unmarshal(kept, &signed); err != nil {
		return err
	}
	_, err := b.update(job, func(j *hub.Job) error {
		for i, r := range j.Requests {
			if r.ID == about.ID && r.Hash == about.Hash && r.Decided == nil {
				j.Requests[i].Decided = &signed
				return nil
			}
		}
		return errSame
	})
	return err
}

// missing returns which contents a user or a job lacks.
func (b *board) missing(u hub.User, l hub.Lookup) (list []string, err error) {
	o, begin, err := b.writable(u, l.Job, l.Attempt)
	if err != nil {
		return nil, err
	}
	if len(l.Hashes) > 5000 {
		return nil, invalid("%d contents at once; ask for at most 5000", len(l.Hashes))
	}
	for _, hash := range l.Hashes {
		if begin[hash] {
			continue
		}
		if _, ok, err := b.contents.size(o, hash); err != nil {
			return nil, err
		} else if !ok {
			list = append(list, hash)
		}
	}
	return list, nil
}

// writable returns whose contents a user may add to: a node to those of the job that it holds,
// and everybody else to their own. begin are the contents that the job has anyway.
func (b *board) writable(u hub.User, job string, attempt int) (o owner, begin map[string]bool, err error) {
	if u.Role != hub.Node {
		return ofUser(u.Key), nil, nil
	}
	j, err := b.look(u, hub.Attempt{Job: job, Number: attempt})
	if err != nil {
		return "", nil, err
	}
	begin, err = b.contents.list(ofUser(j.User), j.Files)
	return ofJob(j.ID), begin, err
}

func (b *board) put(u hub.User, in input) (any, []byte, error) {
	var p hub.Part
	if err := read(in.value, &p); err != nil {
		return nil, nil, err
	}
	o, _, err := b.writable(u, p.Job, p.Attempt)
	if err != nil {
		return nil, nil, err
	}
	if u.Role == hub.Node {
		changing := b.changing.of(p.Job)
		changing.RLock()
		defer changing.RUnlock()
		return nil, nil, b.contents.put(o, p, in.data)
	}
	if err := (remover{b}).awaitPruning(); err != nil {
		return nil, nil, err
	}
	_, mark, err := (remover{b}).pruningNow()
	if err != nil {
		return nil, nil, err
	}
	if err := b.contents.put(o, p, in.data); err != nil {
		return nil, nil, err
	}
	b.at(stepPut)
	if now, revision, err := (remover{b}).pruningNow(); err != nil || now || revision != mark { // it may be gone again
		return nil, nil, errors.Join(&hub.Error{Code: hub.CodeInternal, Text: "the hub removes files of old jobs at the moment; ask again later"}, err)
	}
	return nil, nil, nil
}

// get returns a part of a content: of a job that a node holds, of a job that a person may see,
// or one's own.
func (b *board) get(u hub.User, in input) (any, []byte, error) {
	var p hub.Part
	if err := read(in.value, &p); err != nil {
		return nil, nil, err
	}
	o := ofUser(u.Key)
	if p.Job != "" || u.Role == hub.Node {
		j, err := b.readable(u, p)
		if err != nil {
			return nil, nil, err
		}
		begin, err := b.contents.list(ofUser(j.User), j.Files)
		if err != nil {
			return nil, nil, err
		}
		if o = ofJob(j.ID); begin[p.Hash] {
			o = ofUser(j.User)
		}
	}
	data, size, err := b.contents.get(o, p.Hash, p.Offset)
	p.Size = size
	return p, data, err
}

// readable returns a job whose contents a user may read.
func (b *board) readable(u hub.User, p hub.Part) (hub.Job, error) {
	if u.Role == hub.Node {
		return b.look(u, hub.Attempt{Job: p.Job, Number: p.Attempt})
	}
	return b.findJob(u, p.Job)
}
