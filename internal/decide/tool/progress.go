package tool

import "context"

type progressKey struct{}

// WithProgress returns the context for a caller that wants to know how much of its call is
// done. report gets a number from 0 to 1, and may be called from another goroutine until
// the call ends.
func WithProgress(ctx context.Context, report func(part float64)) context.Context {
	return context.WithValue(ctx, progressKey{}, report)
}

// progressOf returns the function to report progress to, nil if there is none.
func progressOf(ctx context.Context) func(part float64) {
	report, _ := ctx.Value(progressKey{}).(func(part float64))
	return report
}
