package sandbox_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The size of the searched tree. It is like a large source tree: 2,500 directories of 20
// files each under 10 times 25 others.
const (
	treeTops   = 10
	treeMiddle = 25
	treeLeaves = 10
	treeFiles  = 20
	treeTotal  = treeTops * treeMiddle * treeLeaves * treeFiles // 50,000
)

// The texts that the searches look for. No other line has "gate", or a digit after a
// capital letter.
const (
	rareLine  = "\tif err := gate.Open(ctx, key); err != nil {\n"
	codedLine = "// See the note K2417 on how long a key is kept.\n"
)

// makeTree makes the tree of 50,000 text files, 150 MB in all, always the same.
func makeTree(b *testing.B, top string) {
	b.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	lines := textLines(random)
	var text bytes.Buffer
	for i := range treeTotal {
		folder := i / treeFiles
		dir := filepath.Join(top, fmt.Sprintf("part%d", folder/(treeMiddle*treeLeaves)),
			fmt.Sprintf("module%02d", folder/treeLeaves%treeMiddle), fmt.Sprintf("unit%d", folder%treeLeaves))
		if i%treeFiles == 0 {
			if err := os.MkdirAll(dir, 0o777); err != nil {
				b.Fatal(err)
			}
		}
		text.Reset()
		for size := min(64<<10, int(random.ExpFloat64()*3000)); text.Len() < size; {
			text.WriteString(lines[random.IntN(len(lines))])
		}
		if i%50 == 7 {
			text.WriteString(rareLine)
		}
		if i%100 == 11 {
			text.WriteString(codedLine)
		}
		suffix := []string{"md", "go", "txt", "json", "py"}[i%5]
		name := filepath.Join(dir, fmt.Sprintf("file%02d.%s", i%treeFiles, suffix))
		if err := os.WriteFile(name, text.Bytes(), 0o666); err != nil {
			b.Fatal(err)
		}
	}
}

// textLines makes lines of words, some like prose and some like code.
func textLines(random *rand.Rand) []string {
	syllables := strings.Fields("ba co de fi lo mu ne pa ri so ta ve wa zo ter min ing con pre ous")
	words := make([]string, 2000)
	for i := range words {
		for range 1 + random.IntN(4) {
			words[i] += syllables[random.IntN(len(syllables))]
		}
	}
	lines := make([]string, 5000)
	for i := range lines {
		var line strings.Builder
		for k := range random.IntN(12) {
			word := words[random.IntN(len(words))]
			switch {
			case k == 0 && i%3 == 0:
				line.WriteString("\t" + word + " := ")
			case k == 0:
				line.WriteString(strings.ToUpper(word[:1]) + word[1:])
			case i%3 == 0:
				fmt.Fprintf(&line, "%s(%d), ", word, random.IntN(100))
			default:
				line.WriteString(" " + word)
			}
		}
		lines[i] = line.String() + "\n"
	}
	return lines
}

// makeDir makes a directory with n empty files.
func makeDir(b *testing.B, dir string, n int) {
	b.Helper()
	if err := os.MkdirAll(dir, 0o777); err != nil {
		b.Fatal(err)
	}
	for i := range n {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("entry-%06d.txt", i)))
		if err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}

// makeChain makes a file of 4 KiB at each depth: "f", "d/f", "d/d/f", …
func makeChain(b *testing.B, top string, depth int) {
	b.Helper()
	for range depth {
		if err := os.MkdirAll(top, 0o777); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(top, "f"), fourKiB, 0o666); err != nil {
			b.Fatal(err)
		}
		top = filepath.Join(top, "d")
	}
}

// atDepth returns the name of the file that makeChain made at a depth.
func atDepth(depth int) string { return strings.Repeat("d/", depth-1) + "f" }

var fourKiB = bytes.Repeat([]byte("0123456789abcde\n"), 256)
