package serve

import (
	"github.com/golem-forge/golem/internal/hub"
)

// The steps at which a test can wait.
const (
	StepChecked  = string(stepChecked)
	StepPut      = string(stepPut)
	StepUsed     = string(stepUsed)
	StepReplaced = string(stepReplaced)
)

// OnStep makes a hub call a function at each step.
func (o *Options) OnStep(do func(step string)) { o.onStep = func(s step) { do(string(s)) } }

// KeepDecision keeps a decision as a hub does that dies before it changes the job.
func (s *Server) KeepDecision(job string, r hub.Request, signed []byte) error {
	_, _, err := s.board.decided.Decide(decisionKey(job, r), signed)
	return err
}

// QueueParts returns how many parts of the queue nodes have made.
func (s *Server) QueueParts() (int, error) {
	about, err := s.board.queue.Info(s.ctx)
	if err != nil {
		return 0, err
	}
	return about.State.Consumers, nil
}

// Contents returns how many messages with contents the hub keeps.
func (s *Server) Contents() (uint64, error) {
	about, err := s.board.contents.kept.Info(s.ctx)
	if err != nil {
		return 0, err
	}
	return about.State.Msgs, nil
}

// Damage replaces a part of a content of a user by something that nobody can read. The part "size"
// says that the content is complete.
func (s *Server) Damage(user, hash, part string) error {
	name := s.board.contents.name(ofUser(user), hash) + " " + part
	if err := s.board.contents.kept.Forget(name); err != nil {
		return err
	}
	_, _, err := s.board.contents.kept.Decide(name, []byte("damaged, and long enough for a nonce"))
	return err
}

// Answer answers a request of a key, as if it had come over the network.
func (s *Server) Answer(key, name string, message []byte) (value any, data []byte, failure *hub.Error) {
	return s.answer(key, name, message)
}
