package patch_test

import (
	"testing"

	"github.com/golem-forge/golem/internal/files/patch"
)

func TestTexts(t *testing.T) {
	for _, test := range []struct {
		base, ours, theirs, want string
		clean                    bool
	}{
		{"a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", "A\nb\nC\n", true},
		{"a\n", "a\n", "b\n", "b\n", true},
		{"a\n", "b\n", "b\n", "b\n", true},
		{"a\n", "b\n", "c", "<<<<<<< ours\nb\n||||||| base\na\n=======\nc\n>>>>>>> theirs\n", false},
		{"", "", "", "", true},
		{"a\n", "", "a\n", "", true},
		{"a", "a\nb", "A", "<<<<<<< ours\na\nb\n||||||| base\na\n=======\nA\n>>>>>>> theirs\n", false},
		{"", "x\n", "y\n", "<<<<<<< ours\nx\n||||||| base\n=======\ny\n>>>>>>> theirs\n", false},
	} {
		if got, clean := patch.Merge(test.base, test.ours, test.theirs, patch.Marks{Ours: "ours", Base: "base", Theirs: "theirs"}); got != test.want || clean != test.clean {
			t.Errorf("%q, %q, %q: got %q, %v, want %q, %v", test.base, test.ours, test.theirs, got, clean, test.want, test.clean)
		}
	}
}
