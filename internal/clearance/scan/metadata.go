package scan

import (
	"bytes"
	"context"
	"fmt"
	"strings"
)

// metadata, by name content, finds parts of a file that a viewer does not show. Examples
// are the place of a photo, comments, macros, scripts, and data after the end. Parts that
// run when the file is opened, and parts that no program shows, hold. The rest is
// reported.
type metadata struct{}

func (metadata) Name() string    { return metadataName }
func (metadata) Version() string { return "4" }

// A form is a kind of file with metadata.
type form struct {
	magic string                            // the first bytes, "" for none
	is    func(c Content, data []byte) bool // a condition instead, nil for none
	look  func(n *notes, data []byte)
}

var forms = []form{
	{"\xff\xd8\xff", nil, lookJPEG},
	{"\x89PNG\r\n\x1a\n", nil, lookPNG},
	{"GIF8", nil, lookGIF},
	{"", func(_ Content, d []byte) bool {
		return len(d) >= 12 && string(d[:4]) == "RIFF" && string(d[8:12]) == "WEBP"
	}, lookWebP},
	{"", func(_ Content, d []byte) bool {
		return len(d) >= 4 && (string(d[:4]) == "II*\x00" || string(d[:4]) == "MM\x00*")
	}, lookEXIF},
	{"", func(c Content, d []byte) bool { return isPDF(d) || c.within == "pdf" }, lookPDF},
	{"", func(_ Content, d []byte) bool { return isZip(d) }, lookZip},
	{"", func(_ Content, d []byte) bool { return isZip(d) }, lookMembers},
	{"", func(_ Content, d []byte) bool { return isTar(d) }, lookTar},
	{"", func(_ Content, d []byte) bool { return isOLE(d) }, lookOLE},
	{`{\rt`, nil, lookRTF},
	{"", func(c Content, d []byte) bool { return isSVG(c.Path, d) }, lookSVG},
	{"", func(_ Content, d []byte) bool { return isID3(d) }, lookID3},
	{"", func(_ Content, d []byte) bool { return isFont(d) }, lookFont},
}

func (metadata) Scan(_ context.Context, c Content) ([]Finding, error) {
	data, err := c.bytes()
	if err != nil {
		return nil, err
	}
	n := &notes{}
	switch {
	case c.text && c.within == "png":
		n.text("compressed text", data)
		return n.found, nil
	case c.text && c.within != "pdf":
		return nil, nil
	}
	for _, f := range forms {
		if f.is == nil && bytes.HasPrefix(data, []byte(f.magic)) || f.is != nil && f.is(c, data) {
			f.look(n, data)
		}
	}
	if what := hiddenInPixels(data); what != "" {
		n.tell("%s", what)
	}
	if c.within == "zip" {
		lookOffice(n, c.Path, data)
	}
	return n.found, nil
}

// A notes collects findings. It names metadata and never quotes it, because it may be
// private. If there are too many findings, those that hold stay.
type notes struct {
	found []Finding
	holds int
	read  int // bytes of text
}

// mostText limits how much metadata text of a file is read. A file can name the same
// field many times.
const mostText = 16 << 20

func (n *notes) tell(format string, args ...any) {
	if len(n.found)-n.holds < mostFindings {
		n.found = append(n.found, Finding{What: fmt.Sprintf(format, args...)})
	}
}

func (n *notes) hold(offset int, format string, args ...any) {
	if n.holds < mostFindings {
		n.holds++
		n.found = append(n.found, Finding{Hold: true, Offset: int64(offset), What: fmt.Sprintf(format, args...)})
	}
}

// acts are beginnings of code that some program would run.
var acts = []string{"<script", "javascript:", "vbscript:", "<?php", "#!/", "powershell", "<iframe", "onerror=", "onload=", "eval("}

// text records text in a file that a viewer does not show.
func (n *notes) text(what string, text []byte) {
	text = bytes.Trim(text, "\x00 \t\r\n")
	if len(text) == 0 {
		return
	}
	if n.read += len(text); n.read > mostText {
		n.hold(0, "cannot tell: more than %d bytes of metadata", mostText)
		return
	}
	low := strings.ToLower(strings.ReplaceAll(string(text), "\x00", ""))
	for _, a := range acts {
		if strings.Contains(low, a) {
			n.hold(0, "%s with a script, %d bytes", what, len(text))
			return
		}
	}
	if strings.Contains(low, "http://") || strings.Contains(low, "https://") {
		n.tell("%s with an address, %d bytes", what, len(text))
		return
	}
	n.tell("%s, %d bytes", what, len(text))
}

// behind records data after the end of a file, except zeros and white space.
func (n *notes) behind(what string, data []byte, end int) {
	if end > len(data) {
		return
	}
	if rest := bytes.Trim(data[end:], "\x00 \t\r\n"); len(rest) > 0 {
		n.hold(end, "%d bytes after the end of the %s", len(data)-end, what)
	}
}

// broken records a file whose structure cannot be followed.
func (n *notes) broken(what string, at int) {
	n.hold(at, "cannot tell: the %s is cut off or damaged", what)
}
