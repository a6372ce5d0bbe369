package sandbox

import "slices"

// A firsts keeps the first things in their order, whatever the order in which
// they come: what a walk returns is then the same each time, and where there is
// more, that lies behind it.
type firstN[T any] struct {
	most  int
	order func(a, b T) int
	list  []T
	more  bool // something was left out
	last  T    // then, the one behind which nothing is kept
}

// wants reports whether v would be kept, or enough come before it.
func (f *firstN[T]) accepts(v T) bool { return !f.more || f.order(v, f.last) <= 0 }

// add keeps v if it is wanted, and reports whether it was.
func (f *firstN[T]) add(v T) bool {
	if !f.accepts(v) {
		return false
	}
	f.list = append(f.list, v)
	if len(f.list)/2 > f.most {
		f.trim()
	}
	return true
}

// trim puts what is kept in order, and leaves out what is too much.
func (f *firstN[T]) trim() {
	slices.SortFunc(f.list, f.order)
	if len(f.list) > f.most {
		f.list = f.list[:f.most]
		f.more, f.last = true, f.list[f.most-1]
	}
}

// joined returns the first of what several have kept, and whether there is more.
func mergeFirst[T any](all []firstN[T]) (list []T, more bool) {
	sum := firstN[T]{most: all[0].most, order: all[0].order}
	for _, one := range all {
		sum.list = append(sum.list, one.list...)
		more = more || one.more
	}
	sum.trim()
	return sum.list, more || sum.more
}
