// Package run runs a worker: it asks the worker's model, makes the calls that the model
// asks for, each once and through the gate, and returns the answer. A worker can delegate
// work to other workers, which never have more permissions than it has. All workers of a
// run share one budget. A run writes a log from which it can continue, and reports events
// while it works.
package run
