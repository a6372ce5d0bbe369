package scan

import (
	"bytes"
	"encoding/ascii85"
	be "encoding/binary"
	"encoding/hex"
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"
)

// isPDF looks for the mark where PDF readers do. They accept other data before it.
func isPDF(data []byte) bool {
	head := data[:min(len(data), 1024)]
	i := bytes.Index(head, []byte("%PDF-"))
	return i >= 0 && i+5 < len(head) && head[i+5] >= '1' && head[i+5] <= '9'
}

// pdfActs are the names in a PDF file of parts that run something or hide something.
// pdfTells are the names of parts that reveal something.
var (
	pdfActs = map[string]string{
		"JavaScript": "JavaScript", "JS": "JavaScript", "OpenAction": "an action when it is opened", "AA": "actions of its pages",
		"Launch": "an action that starts a program", "EmbeddedFile": "a file inside", "EmbeddedFiles": "a file inside", "RichMedia": "media that run",
		"XFA": "a form that runs", "SubmitForm": "a form that is sent", "ImportData": "data from outside", "GoToR": "a way to another file",
		"GoToE": "a way to a file inside", "Encrypt": "encryption, so that it cannot be scanned",
	}
	pdfTells = map[string]string{"Author": "author", "Creator": "creator", "Producer": "producer", "Keywords": "keywords", "Title": "title"}
)

// pdfDestination matches the value of an OpenAction that only says which page is shown first.
// LibreOffice writes it in every PDF file.
var pdfDestination = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*\[\s*\d+ \d+ R\s*/(XYZ|Fit(B|H|V|R|BH|BV)?)(\s+(null|[-+.\d]+))*\s*\]`)
})

// lookPDF examines the names in a PDF file, or in one of its streams.
func lookPDF(n *notes, data []byte) {
	seen := map[string]bool{}
	for i := 0; i < len(data); {
		j := bytes.IndexByte(data[i:], '/')
		if j < 0 {
			break
		}
		at := i + j
		name, end := pdfName(data, at+1)
		i = end
		if len(name) <= 2 && !pdfValue(data[end:]) {
			continue
		}
		if what, ok := pdfActs[name]; ok && !seen[what] && !(name == "OpenAction" && pdfDestination().Match(data[end:min(len(data), end+128)])) {
			seen[what] = true
			n.hold(at, "PDF: %s", what)
		}
		if what, ok := pdfTells[name]; ok && !seen[what] {
			seen[what] = true
			n.tell("PDF: its %s", what)
		}
	}
	if end := bytes.LastIndex(data, []byte("%%EOF")); end >= 0 {
		n.behind("PDF document", data, end+len("%%EOF"))
	}
}

// pdfValue reports whether a value follows. Short names occur in any data.
func pdfValue(data []byte) bool {
	data = bytes.TrimLeft(data[:min(len(data), 64)], "\x00\t\n\f\r %")
	return len(data) == 0 || bytes.IndexByte([]byte("(<[0123456789"), data[0]) >= 0
}

// pdfName reads a name, in which any character may be written as a number.
func pdfName(data []byte, i int) (string, int) {
	const most = 64 // all names that matter are shorter
	var name []byte
	for i < len(data) && len(name) < most && bytes.IndexByte([]byte("\x00\t\n\f\r ()<>[]{}/%"), data[i]) < 0 {
		if data[i] == '#' && i+2 < len(data) {
			if c, ok := hexByte(data[i+1], data[i+2]); ok {
				name = append(name, c)
				i += 3
				continue
			}
		}
		name = append(name, data[i])
		i++
	}
	return string(name), i
}

func hexByte(high, low byte) (byte, bool) {
	const digits = "0123456789abcdef"
	h, l := strings.IndexByte(digits, lower[high]), strings.IndexByte(digits, lower[low])
	return byte(h<<4 | l), h >= 0 && l >= 0
}

// openPDF shows the compressed streams. They may contain objects.
func openPDF(b *box) error {
	const ends = "endstream"
	number, end, tried := 0, 0, 0
	for i := 0; ; {
		if err := b.ctx.Err(); err != nil {
			return err
		}
		j := bytes.Index(b.data[i:], []byte("stream"))
		if j < 0 {
			return nil
		}
		i += j + len("stream")
		if j >= 3 && string(b.data[i-9:i-6]) == "end" {
			continue
		}
		body := bytes.TrimLeft(b.data[i:min(len(b.data), i+4)], "\r\n ")
		from := min(len(b.data), i+4) - len(body)
		for end >= 0 && end < from { // one end serves all streams that begin before it
			if next := bytes.Index(b.data[from:], []byte(ends)); next >= 0 {
				end = from + next
			} else {
				end = -1
			}
		}
		packed, armoured := b.data[from:], false
		if end >= from {
			var cost int
			packed, armoured, cost = unarmoured(packed, end-from)
			if tried += cost; tried > armourLimit*len(b.data)+freely {
				return limitError("there are more streams inside of each other than are looked through")
			}
		}
		name := fmt.Sprint("stream ", number+1)
		var err error
		switch {
		case len(packed) > 2 && packed[0]&0x0f == 8 && be.BigEndian.Uint16(packed)%31 == 0:
			err = b.inflate(name, packed)
		case armoured:
			err = b.decoded(name, packed)
		default:
			continue
		}
		if err != nil {
			return err
		}
		number++
	}
}

// armourLimit limits how much encoded data is read, as a multiple of the size of the
// file.
const armourLimit = 4

// unarmoured decodes a stream of a PDF file if its bytes are written as characters: in
// base 85, in hexadecimal digits, or in one inside the other. It returns how many bytes
// it read for that.
func unarmoured(body []byte, end int) (plain []byte, armoured bool, cost int) {
	const deepest = 4
	text := body[:end]
	for range deepest {
		text = bytes.TrimSpace(text)
		if !bytes.HasSuffix(text, []byte(">")) {
			break
		}
		cost += len(text)
		next, ok := unwritten(text)
		if !ok {
			break
		}
		text, armoured = next, true
	}
	if !armoured {
		return body, false, cost
	}
	return text, true, cost
}

// unwritten decodes bytes that are written as characters.
func unwritten(text []byte) ([]byte, bool) {
	if inner, ok := bytes.CutSuffix(text, []byte("~>")); ok {
		inner = bytes.TrimPrefix(inner, []byte("<~"))
		zeros := bytes.Count(inner, []byte("z")) // each z stands for four zero bytes
		out := make([]byte, 4*zeros+4*((len(inner)-zeros)/5+2))
		n, _, err := ascii85.Decode(out, inner, true)
		return out[:n], err == nil
	}
	if inner, ok := bytes.CutSuffix(text, []byte(">")); ok {
		inner = withoutSpace(inner)
		out := make([]byte, hex.DecodedLen(len(inner)))
		_, err := hex.Decode(out, inner[:len(inner)/2*2])
		return out, err == nil
	}
	return nil, false
}

// lookZip examines the data around a ZIP archive.
func lookZip(n *notes, data []byte) {
	end := zipEnd(data)
	if end < 0 {
		n.broken("ZIP archive", 0)
		return
	}
	comment := int(be.LittleEndian.Uint16(data[end+20:]))
	stop := end + 22 + comment
	if comment > 0 && stop <= len(data) {
		n.text("ZIP: a comment", data[end+22:stop])
	}
	if isTar(data) {
		return // it may be the last file of that archive
	}
	n.behind("ZIP archive", data, stop)
	if !bytes.HasPrefix(data, []byte("PK")) {
		n.hold(0, "a ZIP archive that begins as something else")
	}
}

// External parts of Office documents that are loaded when the document is opened. A
// hyperlink, which needs a click, is not one.
var (
	officeOutside = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)<[^>]*TargetMode\s*=\s*["']External[^>]*>`) })
	officeLoaded  = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)/(?:attachedTemplate|oleObject|frame|subDocument|externalLinkPath|package)["']`)
	})
)

func loadsMore(rels []byte) bool {
	for _, tag := range officeOutside().FindAll(rels, -1) {
		if officeLoaded().Match(tag) {
			return true
		}
	}
	return false
}

// lookOffice examines a part of an Office document, which is a ZIP archive.
func lookOffice(n *notes, name string, data []byte) {
	low := strings.ToLower(name)
	switch base := path.Base(low); {
	case strings.HasPrefix(base, "vbaproject") || strings.HasPrefix(base, "vbadata"):
		n.hold(0, "Office: macros")
	case strings.Contains(low, "/macrosheets/"):
		n.hold(0, "Office: macros")
	case strings.Contains(low, "/activex/"):
		n.hold(0, "Office: a control that runs")
	case strings.HasSuffix(base, ".rels") && loadsMore(data):
		n.hold(0, "Office: a part that is loaded from elsewhere, such as a template")
	case strings.Contains(low, "/embeddings/"):
		n.tell("Office: an object inside")
	case base == "core.xml" || base == "app.xml" || base == "meta.xml":
		n.text("Office: names of persons and programs", data)
	case base == "document.xml" && bytes.Contains(data, []byte("DDEAUTO")):
		n.hold(0, "Office: a field that starts a program")
	case strings.HasPrefix(low, "basic/") || strings.HasPrefix(low, "scripts/"):
		n.hold(0, "Office: macros")
	}
}

// isOLE reports whether data begins like an old Office document.
func isOLE(data []byte) bool {
	return bytes.HasPrefix(data, []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"))
}

// lookOLE finds the names of streams in an old Office document.
func lookOLE(n *notes, data []byte) {
	text := string(narrowed(data))
	for _, mark := range []string{"_VBA_PROJECT", "Macros", "Ole10Native", "VBA"} {
		if strings.Contains(text, mark) || bytes.Contains(data, wide(mark)) {
			n.hold(0, "Office: macros or a program inside")
			return
		}
	}
	n.tell("an old Office document, which golem cannot read completely")
}

// wide encodes ASCII as UTF-16LE.
func wide(text string) (out []byte) {
	for i := range len(text) {
		out = append(out, text[i], 0)
	}
	return out
}

// lookRTF finds embedded objects, which old programs run.
func lookRTF(n *notes, data []byte) {
	if at := bytes.Index(data, []byte(`\obj`)); at >= 0 {
		n.hold(at, "RTF: an object inside")
	}
}

func isID3(data []byte) bool {
	return bytes.HasPrefix(data, []byte("ID3")) || len(data) >= 128 && string(data[len(data)-128:len(data)-125]) == "TAG"
}

// lookID3 follows the frames before the data of a sound file.
func lookID3(n *notes, data []byte) {
	if !bytes.HasPrefix(data, []byte("ID3")) {
		n.text("ID3: an old tag", data[len(data)-125:])
		return
	}
	if len(data) < 10 || data[3] < 3 {
		n.tell("ID3: a tag of an old version")
		return
	}
	end := min(len(data), 10+synchsafe(data[6:10]))
	for i := 10; i+10 <= end && data[i] != 0; {
		length := int(be.BigEndian.Uint32(data[i+4:]))
		if data[3] == 4 {
			length = synchsafe(data[i+4 : i+8])
		}
		if length < 0 || length > end-i-10 {
			n.broken("ID3 tag", i)
			return
		}
		n.text("ID3: "+string(data[i:i+4]), data[i+10:i+10+length])
		i += 10 + length
	}
}

// synchsafe reads a number with seven bits in each byte.
func synchsafe(b []byte) int {
	return int(b[0]&0x7f)<<21 | int(b[1]&0x7f)<<14 | int(b[2]&0x7f)<<7 | int(b[3]&0x7f)
}

func isFont(data []byte) bool {
	return len(data) >= 12 && (string(data[:4]) == "\x00\x01\x00\x00" || string(data[:4]) == "OTTO" || string(data[:4]) == "true")
}

// lookFont examines the tables of a font.
func lookFont(n *notes, data []byte) {
	count := int(be.BigEndian.Uint16(data[4:]))
	end := int64(12 + 16*count)
	if end > int64(len(data)) || count == 0 {
		return // format reports a content of another kind
	}
	for i := range count {
		entry := data[12+16*i:]
		from, length := int64(be.BigEndian.Uint32(entry[8:])), int64(be.BigEndian.Uint32(entry[12:]))
		if from+length > int64(len(data)) {
			return // format reports this too
		}
		if string(entry[:4]) == "SVG " {
			lookSVG(n, data[from:from+length])
		}
		end = max(end, from+length)
	}
	n.behind("font", data, int(end))
}
