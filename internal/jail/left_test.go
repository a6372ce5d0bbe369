package jail

import (
	"strings"
	"testing"
)

// TestLeftOf checks that leftOf accepts only well-formed reports of a shell.
func TestLeftOf(t *testing.T) {
	given := []string{"PATH=/bin", "LANG=C", "X=1"}
	tests := []struct {
		told string
		want string // directory, variables set, variables gone; "" for nil
	}{
		{"/work/a\n\x00PATH=/bin\x00LANG=C\x00X=1\x00\x00", "/work/a |  |"},
		{"/work/a\n\x00PATH=/bin\x00X=2\x00Y=a=b\nc\x00\x00", "/work/a | X=2,Y=a=b\nc | LANG"},
		{"/a\nb\n\x00PATH=/bin\x00LANG=C\x00X=1\x00\x00", "/a\nb |  |"},
		{"\x00PATH=/bin\x00LANG=C\x00X=1\x00\x00", " |  |"},
		{"a/b\n\x00PATH=/bin\x00LANG=C\x00X=1\x00\x00", " |  |"},
		{"/a/../b\n\x00PATH=/bin\x00LANG=C\x00X=1\x00\x00", " |  |"},
		{"/a\xff\n\x00PATH=/bin\x00LANG=C\x00X=1\x00\x00", " |  |"},
		{"/a\n\x00\x00", "/a |  | PATH,LANG,X"},
		{"", ""},
		{"/a\n", ""},
		{"/a\n\x00X=1", ""},
		{"/a\n\x00X=1\x00", ""},
		{"/a\n\x00X\x00\x00", ""},
		{"/a\n\x00=1\x00\x00", ""},
		{"/a\n\x00X=1\x00X=2\x00\x00", ""},
		{"/a\n\x00X=1\x00\x00/b\n\x00X=2\x00\x00", ""},
		{"noise/a\n\x00X=1\x00\x00more", ""},
	}
	same := func(text string) string { return text }
	for _, test := range tests {
		got := ""
		if l := leftOf(Output{Head: []byte(test.told)}, given, same, same); l != nil {
			got = l.Dir + " | " + strings.Join(l.Set, ",") + " | " + strings.Join(l.Gone, ",")
		}
		if got = strings.TrimSpace(got); got != strings.TrimSpace(test.want) {
			t.Errorf("%q: got %q, want %q", test.told, got, test.want)
		}
	}
	if l := leftOf(Output{Head: []byte("/a\n\x00\x00"), Hidden: 1}, given, same, same); l != nil {
		t.Errorf("output over the limit: got %+v", l)
	}
	told := []byte("/host/a/b\n\x00X=/host/a:/usr\x00\x00")
	inside := func(text string) string { return strings.ReplaceAll(text, "/host/a", "/work") }
	if l := leftOf(Output{Head: told}, []string{"X=/work:/usr"}, inside, inside); l == nil || l.Dir != "/work/b" || len(l.Set)+len(l.Gone) > 0 {
		t.Errorf("by other names: got %+v", l)
	}
}
