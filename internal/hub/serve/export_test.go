package serve

import "github.com/golem-forge/golem/internal/hub"

// KeepDecision keeps a decision as a hub does that dies before it changes the job.
func (s *Server) KeepDecision(job string, r hub.Request, signed []byte) error {
	_, _, err := s.board.decided.Decide(decisionKey(job, r), signed)
	return err
}
