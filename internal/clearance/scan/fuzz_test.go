package scan

import (
	"context"
	"net"
	"strings"
	"testing"
)

// FuzzContent runs all scanners on any input. None may fail.
func FuzzContent(f *testing.F) {
	e := string(eicar())
	for _, seed := range []struct {
		path string
		data []byte
	}{
		{"a.txt", []byte("token: gh" + "p_0123456789abcdefghijABCDEFGHIJklmnop\n")}, {"a.txt", wide(e)}, {"a.md", []byte(strings.Repeat("QUJD", 40) + "\n")},
		{"a.zip", makeZip(member{"a", e})}, {"a.tar", makeTar(member{"a", e})}, {"a.gz", gzipBytes([]byte(e))}, {"a.bz2", []byte("BZh91AY&SY\x00")},
		{"a.pdf", pdf("/J#53 (x)")}, {"a.pdf", pdfStream("/JS")}, {"a.png", png("zTXt", "k\x00\x00"+deflate(e), "iTXt", "k\x00\x01\x00\x00\x00x")},
		{"a.jpg", jpeg("\xe1", exif(0x010e, "a cat", true), "\xfe", "x")}, {"a.gif", gif("x")}, {"a.webp", []byte("RIFF\x0c\x00\x00\x00WEBPEXIF\x00\x00\x00\x00")},
		{"a.tif", []byte(exif(0x010e, "a cat", true)[6:])}, {"a.mp3", id3("COMM", "x")}, {"a.otf", font("SVG ", "<svg/>", "")}, {"a.svg", []byte("<svg onload='x'/>")},
		{"a.doc", []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")}, {"word/_rels/a.rels", []byte(`<R TargetMode="External" Type="/frame"/>`)},
	} {
		f.Add(seed.path, seed.data)
	}
	s := newSet(f, Options{Limits: Limits{Size: 1 << 20, Expanded: 1 << 20, Entries: 50}})
	f.Fuzz(func(t *testing.T, path string, data []byte) {
		v := s.Scan(t.Context(), of(path, data))
		got := describeVerdict(v)
		if strings.Contains(got, "it failed: ") || strings.Contains(got, "it cannot be opened: ") || strings.Contains(got, "took too long") {
			t.Errorf("%q: %s", path, got)
		}
		for _, f := range v.Findings {
			if f.Offset < 0 || f.Line < 0 || f.What == "" || f.Scanner == "" {
				t.Errorf("%q: %+v", path, f)
			}
		}
	})
}

// FuzzClamd lets clamd answer anything. Only one answer means clean.
func FuzzClamd(f *testing.F) {
	for _, seed := range []string{"stream: OK\x00", "stream: X FOUND\x00", " FOUND", "INSTREAM size limit exceeded. ERROR\x00", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		ours, theirs := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			reply := answerClamd(theirs, 1<<20, func([]byte) string { return answer })
			_, _ = theirs.Write([]byte(reply))
			_ = theirs.Close()
		}()
		s := clamd{func(context.Context) (net.Conn, error) { return ours, nil }}
		found, err := s.Scan(t.Context(), of("a", []byte("words")))
		<-done
		if clean := len(found) == 0 && err == nil; clean != (strings.TrimRight(answer, "\x00\n") == "stream: OK") {
			t.Errorf("%q: got %v, %v", answer, found, err)
		}
	})
}
