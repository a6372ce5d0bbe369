package sandbox

import "slices"

// A firstN keeps the first values in order, at most a given number, whatever the order in
// which they are added. So a walk returns the same result each time, and everything that
// it omits comes after the result.
type firstN[T any] struct {
	most  int
	order func(a, b T) int
	list  []T
	more  bool // some values were dropped
	last  T    // if more: the last value that is kept
}

// accepts reports whether add would keep v.
func (f *firstN[T]) accepts(v T) bool { return !f.more || f.order(v, f.last) <= 0 }

// add keeps v if it is among the first values so far, and reports whether it did.
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

// trim sorts the kept values and drops those over the limit.
func (f *firstN[T]) trim() {
	slices.SortFunc(f.list, f.order)
	if len(f.list) > f.most {
		f.list = f.list[:f.most]
		f.more, f.last = true, f.list[f.most-1]
	}
}

// mergeFirst returns the first values of several lists, and whether values were dropped.
func mergeFirst[T any](all []firstN[T]) (list []T, more bool) {
	sum := firstN[T]{most: all[0].most, order: all[0].order}
	for _, one := range all {
		sum.list = append(sum.list, one.list...)
		more = more || one.more
	}
	sum.trim()
	return sum.list, more || sum.more
}
