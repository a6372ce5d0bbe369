package statetest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A player is another process and the lines that it prints.
type player struct {
	t       testing.TB
	process Process
	out     *bufio.Scanner
	other   strings.Builder // its other output
}

// start starts another process that plays a part in a directory. The tag distinguishes it
// from others.
func (s Suite) start(t *testing.T, part, dir, tag string) *player {
	t.Helper()
	process, err := s.Start([3]string{part, dir, tag})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { process.Kill(); process.Wait() }) // if the test did not
	return &player{t: t, process: process, out: bufio.NewScanner(process)}
}

// said precedes each line of a part, to distinguish it from lines of the test framework.
const said = "said: "

// next returns the next line of the process, and false when it has ended.
func (p *player) next() (string, bool) {
	for p.out.Scan() {
		if line, ok := strings.CutPrefix(p.out.Text(), said); ok {
			return line, true
		}
		fmt.Fprintln(&p.other, p.out.Text())
	}
	return "", false
}

// rest returns the remaining lines of the process until it ends.
func (p *player) rest() (lines []string) {
	for line, ok := p.next(); ok; line, ok = p.next() {
		lines = append(lines, line)
	}
	return lines
}

// end waits for a process that must end with success, and returns its remaining lines.
func (p *player) end() []string {
	p.t.Helper()
	lines := p.rest()
	if err := p.process.Wait(); err != nil {
		p.t.Fatalf("another process: %v\n%s", err, p.other.String())
	}
	return lines
}

// kill kills the process at a random moment after it has printed so many lines, and
// returns all its lines.
func (p *player) kill(random *rand.Rand, after int) (lines []string) {
	p.t.Helper()
	for len(lines) < after {
		line, ok := p.next()
		if !ok {
			p.process.Wait()
			p.t.Fatalf("another process ended before it was killed:\n%s", p.other.String())
		}
		lines = append(lines, line)
	}
	time.Sleep(time.Duration(random.IntN(500)) * time.Microsecond)
	p.process.Kill()
	lines = append(lines, p.rest()...)
	p.process.Wait()
	if strings.Contains(p.other.String(), "FAIL") {
		p.t.Fatalf("another process, before it was killed:\n%s", p.other.String())
	}
	return lines
}

// Play plays the part that words name, and writes its lines to out.
func (s Suite) Play(t *testing.T, out io.Writer, words [3]string) {
	t.Helper()
	part, dir, tag := words[0], words[1], words[2]
	say := func(format string, args ...any) { fmt.Fprintf(out, said+format+"\n", args...) }
	switch part {
	case "append":
		l := s.log(t, dir)
		for i := range perProcess {
			must(t, l.Append(i%100 == 0, chain(tag, i, 1, 0)))
		}
	case "append until killed":
		l := s.log(t, dir)
		for i := 0; ; say("%d", i) {
			n := 1 + i%3
			must(t, l.Append(i%4 == 0, chain(tag, i, n, i%5*3000)))
			i += n
		}
	case "decide":
		o := s.once(t, dir)
		for i := range keys {
			kept, first, err := o.Decide(strconv.Itoa(i), []byte(tag))
			must(t, err)
			say("%d %s %t", i, kept, first)
		}
	case "decide until killed":
		o := s.once(t, dir)
		for i := 0; ; i++ {
			key := fmt.Sprint(tag, i)
			_, _, err := o.Decide(key, bytes.Repeat([]byte(key), 1000))
			must(t, err)
			say("%s", key)
		}
	case "count in turn":
		s.countInTurn(t, dir, tag)
	case "hold until killed":
		_, err := s.leases(t, dir).Take(context.Background(), "lease", tag)
		must(t, err)
		for ; ; time.Sleep(time.Second) {
			say("held")
		}
	case "put until killed":
		b := s.blobs(t, dir)
		for i := 0; ; i++ {
			hash, err := b.Put(strings.NewReader(content(tag, i)))
			must(t, err)
			say("%s", hash)
		}
	default:
		t.Fatalf("no such part: %s", part)
	}
}

// must fails the test at once if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// countInTurn increments a number in a file. The count is wrong unless all processes take
// turns.
func (s Suite) countInTurn(t *testing.T, dir, tag string) {
	leases, name := s.leases(t, dir), filepath.Join(filepath.Dir(dir), "number")
	for range turns {
		release, err := leases.Take(context.Background(), "lease", tag)
		must(t, err)
		file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		must(t, err)
		text, _ := io.ReadAll(file)
		n, _ := strconv.Atoi(string(text))
		fmt.Fprint(io.NewOffsetWriter(file, 0), n+1)
		file.Close()
		must(t, release())
	}
}
