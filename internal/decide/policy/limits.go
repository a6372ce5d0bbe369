package policy

import "time"

// Limits limit the resources of a run and of its commands. Zero is no limit.
type Limits struct {
	CPU      time.Duration // processor time of a command
	Memory   int64         // bytes
	Pids     int64         // processes
	Time     time.Duration // time of a command
	Output   int64         // bytes of a command's output that are kept
	FileSize int64         // bytes of one file that a command writes
	Disk     int64         // bytes of all changes of a session

	Turns   int64 // turns of models, over the whole tree
	Workers int64 // workers that other workers start, over the whole tree
	Tokens  int64
	Cost    float64
	Budget  time.Duration // time of the whole run
}

// The limits of a run that sets none. A run that needs more turns probably never ends. Each
// worker has its own sandbox, tools and conversation.
const (
	DefaultTurns   = 500
	DefaultWorkers = 200
)

// Meet returns the lower of each limit.
func (l Limits) Meet(m Limits) Limits {
	return Limits{
		CPU: lower(l.CPU, m.CPU), Memory: lower(l.Memory, m.Memory), Pids: lower(l.Pids, m.Pids),
		Time: lower(l.Time, m.Time), Output: lower(l.Output, m.Output), FileSize: lower(l.FileSize, m.FileSize), Disk: lower(l.Disk, m.Disk),
		Turns: lower(l.Turns, m.Turns), Workers: lower(l.Workers, m.Workers), Tokens: lower(l.Tokens, m.Tokens), Cost: lower(l.Cost, m.Cost),
		Budget: lower(l.Budget, m.Budget),
	}
}

// lower returns the lower of two limits. Zero is no limit.
func lower[T time.Duration | int64 | float64](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
