// Package run is the loop: a worker asks its model, makes the calls that the model asks
// for, each exactly once and through the door, and hands parts of the work to other
// workers, who can never do more than it. A run has one budget, one log from which it
// can continue, and tells what happens as it happens.
package run
