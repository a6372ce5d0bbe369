package audit

import "github.com/golem-forge/golem/internal/records/state"

// BeforeAppend lets a test watch and delay the appends of a journal to its log.
func (j *Journal) BeforeAppend(look func(sync bool)) { j.log = watched{j.log, look} }

type watched struct {
	state.Log
	look func(sync bool)
}

func (w watched) Append(sync bool, next func(state.Tail) ([][]byte, []byte, error)) error {
	w.look(sync)
	return w.Log.Append(sync, next)
}

// Waiting returns how many records the next leader would write.
func (j *Journal) Waiting() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.next.entries)
}

// Kept returns a text as a journal with these secrets would store it.
func Kept(text string, secrets ...string) string {
	k := &keeper{redactor: newRedactor(secrets), left: maxBytes, nodes: maxNodes}
	return k.text(text)
}
