package model

// An Ordered model gives answers that depend on the order of the requests.
type Ordered interface {
	// AnswersInOrder reports whether the answers to workers depend on the order in which
	// the workers ask, except those to one worker.
	AnswersInOrder(except string) bool
}

// AnswersInOrder reports whether the workers that a worker calls must ask a model one
// after the other, because the order changes its answers.
func AnswersInOrder(m Model, caller string) bool {
	o, ok := m.(Ordered)
	return ok && o.AnswersInOrder(caller)
}

// AnswersInOrder implements Ordered.
func (r *retrying) AnswersInOrder(except string) bool { return AnswersInOrder(r.model, except) }
