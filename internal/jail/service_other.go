//go:build !linux

package jail

// A Service is a command that runs at the same time as others. It does not exist on this
// system, because Start always fails.
type Service struct{}

// Serve returns the error of Start.
func (*Jail) Serve(Command) (*Service, error) {
	_, err := Start(Policy{}, nil)
	return nil, err
}

// Output returns nothing.
func (*Service) Output(offset, most int64) Piece { return Piece{} }

// Done returns nil.
func (*Service) Done() <-chan struct{} { return nil }

// Result returns the error of Start.
func (*Service) Result() (Result, error) {
	_, err := Start(Policy{}, nil)
	return Result{}, err
}

// Stop does nothing.
func (*Service) Stop() {}

// Kill does nothing.
func (*Service) Kill() {}
