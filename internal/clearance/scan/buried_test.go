package scan

import (
	"archive/zip"
	"bytes"
	"encoding/ascii85"
	"encoding/base64"
	be "encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"testing"
)

// setChecksum writes the checksum of the first header of a tar archive.
func setChecksum(archive []byte, signed bool) []byte {
	copy(archive[148:156], "        ")
	sum := 0
	for _, c := range archive[:512] {
		if sum += int(c); signed && c > 127 {
			sum -= 256
		}
	}
	copy(archive[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return archive
}

// signedTar is a tar archive with a checksum of signed bytes, and oldTar one without a
// mark.
func signedTar(content []byte) []byte {
	archive := makeTar(member{"cafe.gz", string(content)})
	archive[3] = 0xe9
	return setChecksum(archive, true)
}

func oldTar(content []byte) []byte {
	archive := makeTar(member{"a.gz", string(content)})
	clear(archive[257:265])
	return setChecksum(archive, false)
}

// twoKinds is a tar archive with a database for tar readers, and a ZIP archive for
// others. The list of the ZIP archive is in the name of a second file.
func twoKinds(content string) []byte {
	const head = "SQLite format 3\x00"
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	w.SetOffset(512 + int64(len(head)))
	f, _ := w.Create("a")
	_, _ = io.WriteString(f, content)
	_ = w.Close()
	end := bytes.LastIndex(b.Bytes(), []byte("PK\x05\x06"))
	list := bytes.Index(b.Bytes(), []byte("PK\x01\x02"))
	archive := makeTar(member{"data.sqlite", head + b.String()[:list]}, member{"x", ""})
	at := len(archive) - 1024 - 512
	copy(archive[at+2:], b.Bytes()[list:])
	last := archive[at+2+end-list:]
	be.LittleEndian.PutUint32(last[16:], uint32(at+2))
	be.LittleEndian.PutUint16(last[20:], uint16(len(last)-zipEndLength))
	setChecksum(archive[at:], false)
	return archive
}

// sevenZip is the beginning of an archive that 7-Zip made.
func sevenZip() string {
	b := append([]byte("7z\xbc\xaf\x27\x1c\x00\x04\x00\x00\x00\x00"), make([]byte, 20)...)
	be.LittleEndian.PutUint32(b[8:], crc32.ChecksumIEEE(b[12:]))
	return string(b)
}

// makeDisagreeingZip is an archive whose header before an entry differs from the list.
func makeDisagreeingZip(change func(header []byte)) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, _ := w.CreateRaw(&zip.FileHeader{Name: "a.txt", Method: zip.Store, CompressedSize64: 4, UncompressedSize64: 4, CRC32: crc32.ChecksumIEEE([]byte("text"))})
	_, _ = io.WriteString(f, "text")
	_ = w.Close()
	change(b.Bytes())
	return b.Bytes()
}

// TestTwoKinds checks that a file is examined as every kind that readers may take it for.
func TestTwoKinds(t *testing.T) {
	e := string(eicar())
	const want = "malware hold=true"
	z, gz := string(makeZip(member{"a", e})), string(gzipBytes([]byte(e)))
	fine := string(makeZip(member{"a.txt", "fine\n"}))
	ole := "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + strings.Repeat("\x00", 504)
	film := "\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom"
	random := string(randomBytes(70_000))
	check(t, newSet(t, Options{}), []scanCase{
		{"zip behind an old Office document", "a.doc", []byte(ole + z), want},
		{"zip in an old Office document", "a.doc", []byte(ole + z + random), "in zip at 512, in a: the EICAR"},
		{"zip in a film", "a.mp4", []byte(film + z + random), want},
		{"gzip in a film", "a.mp4", []byte(film + gz + "more"), "in gzip at 24: the EICAR"},
		{"what only begins as gzip in a film", "a.mp4", []byte(film + gz[:len(gz)-8] + random), ""},
		{"7z in a film", "a.mp4", []byte(film + sevenZip() + random), "golem cannot read the 7z"},
		{"what only begins as 7z in a film", "a.mp4", []byte(film + sevenZip()[:10] + random), ""},
		{"more than can be looked at in a film", "a.mp4", []byte(film + strings.Repeat("\x1f\x8b\x08", mostTries+1)), "more beginnings of archives"},
		{"7z in base64", "a.txt", []byte("x " + base64.StdEncoding.EncodeToString([]byte(sevenZip()+e)) + "\n"), "golem cannot read 7z"},
		{"tar and zip", "a.tar", twoKinds(e), want},
		{"zip as the last file of a tar", "a.tar", makeTar(member{"a.zip", fine}), ""},
		{"tar with signed numbers", "a.tar", signedTar([]byte(gz)), want},
		{"tar without a mark", "a.tar", oldTar([]byte(gz)), want},
		{"another last record behind", "a.zip", []byte(z + "PK\x05\x06" + strings.Repeat("\x00", 18)), "hold=true"},
		{"another name in the list", "a.zip", makeDisagreeingZip(func(h []byte) { h[30] = 'b' }), "a.txt is not what the list of entries says"},
		{"another method in the list", "a.zip", makeDisagreeingZip(func(h []byte) { h[8] = 8 }), "not what the list"},
		{"encrypted, but not in the list", "a.zip", makeDisagreeingZip(func(h []byte) { h[6] |= 1 }), "not what the list"},
		{"another size in the list", "a.zip", makeDisagreeingZip(func(h []byte) { h[18]++ }), "not what the list"},
		{"the same in the list", "a.zip", makeDisagreeingZip(func([]byte) {}), ""},
	})
}

// TestUnreadableArchives checks that archives which cannot be opened are held, whatever other kind
// they look like, and that no text is.
func TestUnreadableArchives(t *testing.T) {
	s := newSet(t, Options{Scanners: []string{"malware"}}) // without the scanners that do not know a kind
	at := func(offset int, mark string) []byte {
		return append(make([]byte, offset), mark+strings.Repeat("\x00", 2000)...)
	}
	long := strings.Repeat("0", 200)
	for _, c := range []struct {
		name    string
		content []byte
		held    bool
	}{
		{"cpio", []byte("070701" + long), true}, {"cpio with sums", []byte("070702" + long), true}, {"old cpio", []byte("070707" + long), true},
		{"binary cpio", []byte("\xc7\x71" + strings.Repeat("\x01", 18) + "\x02\x00" + strings.Repeat("\x00", 8)), true},
		{"xar", at(0, "xar!\x00\x1c"), true}, {"deb", at(0, "!<arch>\ndebian-binary"), true}, {"thin ar", at(0, "!<thin>\n"), true}, {"cab", at(0, "MSCF"), true},
		{"iso", at(32769, "CD001"), true}, {"udf", at(32769, "BEA01"), true}, {"iso with another head", append([]byte("%PDF-1.4\n"), at(32760, "CD001")...), true},
		{"dmg", append(at(0, "\x01"), append([]byte("koly"), make([]byte, 508)...)...), true}, {"squashfs", at(0, "hsqs"), true}, {"lha", at(2, "-lh5-"), true}, {"zoo", at(20, "\xdc\xa7\xc4\xfd"), true},
		{"lzma", at(0, "\x5d\x00\x00\x80\x00\xff\xff\xff\xff\xff\xff\xff\xff"), true}, {"skippable", at(0, "\x50\x2a\x4d\x18"), true}, {"compress", at(0, "\x1f\x9d\x8c"), true},
		{"wim", at(0, "MSWIM\x00\x00\x00"), true}, {"vhd", append(at(0, "\x01"), append([]byte("conectix"), make([]byte, 504)...)...), true}, {"FAT", at(54, "FAT16   "), true}, {"ext", at(1080, "\x53\xef"), true},
		{"date", []byte("070701,12\n070702,13\n" + strings.Repeat("a line\n", 40)), false}, {"words", []byte("xar! hsqs LZIP MSCF\n"), false}, {"LZIP is a word", []byte("LZIP is a format\n"), false},
		{"a list", []byte("- -lh5- is how lha begins\n"), false}, {"zeros", make([]byte, 4000), false},
	} {
		if v := s.Scan(t.Context(), of("a", c.content)); v.Held != c.held {
			t.Errorf("%s: held %v:\n%s", c.name, v.Held, describeVerdict(v))
		}
	}
}

// TestNumberLists checks that lists of numbers are decoded, and that no text is.
func TestNumberLists(t *testing.T) {
	e := string(eicar())
	z := string(makeZip(member{"a", e}))
	const want = "malware hold=true"
	list := func(format, text string) string { return strings.TrimRight(escapedAs(format, text), " ,") }
	check(t, newSet(t, Options{}), []scanCase{
		{"an array", "a.js", []byte("x = new Uint8Array([" + list("%d, ", e) + "]);\n"), want},
		{"an array in hexadecimal", "a.c", []byte("char x[] = {\n" + list("0x%02X,\n", e) + "};\n"), want},
		{"an array with an archive", "a.js", []byte("x = [" + list("%d,", z) + "];\n"), want},
		{"digits", "a.txt", []byte("the code face " + list("%02x ", e) + "\n"), want},
		{"numbers behind a word", "a.txt", []byte("face " + list("%d ", e) + "\n"), want},
		{"letters of C", "a.c", []byte(`x = "` + escapedAs(`\x%02x`, e) + `";`), want},
		{"letters in octal", "a.sh", []byte(`printf "` + escapedAs(`\%03o`, e) + `"`), want},
		{"letters of JavaScript", "a.js", []byte(`x = "` + escapedAs(`\u{%x}`, e) + `";`), want},
		{"letters of HTML", "a.html", []byte("<p>" + escapedAs("&#%d;", e) + "</p>"), want},
		{"letters of HTML in hexadecimal", "a.html", []byte("<p>" + escapedAs("&#x%04x;", e) + "</p>"), want},
		{"a table", "a.csv", []byte(strings.Repeat("1,2,3,200,4000,5,6.5,-7\n", 200)), ""},
		{"words", "a.md", []byte(strings.Repeat("a bad cafe be dead, add a bed; fade 12 34\n", 200)), ""},
		{"letters of HTML without an end", "a.html", []byte("<p>" + escapedAs("&#%d", e) + "</p>"), want},
		{"letters of HTML in hexadecimal without an end", "a.html", []byte("<p>" + escapedAs("&#x%x", e) + "</p>"), want},
		{"characters that nobody sees", "a.txt", []byte("x = " + escapedAs("%c\u200b", e) + "\n"), want},
		{"other characters that nobody sees", "a.txt", []byte("x = " + e[:9] + "\u2060\ufe0f\u00ad\u034f\U000e0020" + e[9:] + "\n"), want},
		{"entities that nobody sees", "a.html", []byte("<p>" + e[:9] + "&#8203;&#x200B;&ZeroWidthSpace;&zwj;&shy;" + e[9:] + "</p>"), want},
		{"sequences of a terminal", "a.log", []byte("x " + e[:9] + "\x1b[0m\x1b]0;t\a\x1b(B" + e[9:20] + "\x1b[38;5;1m" + e[20:] + "\n"), want},
		{"quoted-printable", "a.eml", []byte("the file: " + e[:9] + "=\r\n" + e[9:20] + "=\n" + e[20:] + "\n"), want},
		{"wide letters", "a.txt", []byte("x = " + strings.NewReplacer("E", "\uff25", "a", "\uff41", "5", "\uff15").Replace(e) + "\n"), want},
		{"settings without values", "a.env", []byte("PASSWORD=\nUSER=kPqZ7vXw2LmN9tYb4RsD\nexport SECRET=\nexport NAME=kPqZ7vXw2LmN9tYb4RsD\n"), ""},
		{"entities that somebody sees", "a.html", []byte("<p>a &amp; b&nbsp;&eacute;&#233; &unknownentity; &;</p>"), ""},
		{"nothing behind", "a.txt", []byte(`50% & \ &# \u{ \x &#x; \u{} %`), ""},
	})
}

// TestSplitTokens checks that a token is found if something that no reader sees is between its
// characters, in a file, in its name and in a message.
func TestSplitTokens(t *testing.T) {
	const token = "ghp_kPqZ7vXw2LmN9tYb4RsD8fGh3JcV6aEu1QxT"
	every := func(n int, between string) string {
		var b strings.Builder
		for i, c := range []byte(token) {
			if i > 0 && i%n == 0 {
				b.WriteString(between)
			}
			b.WriteByte(c)
		}
		return b.String()
	}
	for name, text := range map[string]string{
		"tags":                    every(5, "<b>") + "</b>",
		"tags around each":        "<i>" + every(1, "</i><i class=\"x y\">") + "</i>",
		"a tag over lines":        every(9, "<span\n  id=x\n>"),
		"comments of HTML":        every(7, "<!-- a > b\n-->"),
		"instructions of XML":     every(7, "<?x y?>"),
		"comments of C":           every(6, "/* x\n */"),
		"comments and tags":       every(6, "/**/<wbr><!---->"),
		"escapes of CSS":          `a:after { content: "` + escapedAs(`\%x `, token) + `" }`,
		"long escapes of CSS":     `a { content: "` + escapedAs(`\%06X`, token) + `" }`,
		"one escape of CSS":       `a { content: '\67 hp\5f ` + token[4:] + `' }`,
		"escapes of Markdown":     strings.ReplaceAll(token, "_", `\_`),
		"lines of a shell":        "x=" + every(8, "\\\n"),
		"lines of YAML":           `x: "` + every(8, "\\\r\n    ") + `"`,
		"backspaces":              every(1, "\b"),
		"overstruck":              every(1, "X\b"),
		"printed twice":           escapedAs("%[1]c\b%[1]c", token),
		"controls":                every(3, "\x01\x7f\x1f"),
		"quoted-printable":        escapedAs("=%02X", token),
		"one letter of it":        "x" + "\n " + strings.Replace(token, "_", "=5F", 1),
		"its soft lines":          every(10, "=\n"),
		"its lines with blanks":   every(10, "= \t\r\n"),
		"its lines like base64":   every(19, "=\n"),
		"its lines like settings": token[:30] + "=\n" + token[30:],
		"both":                    strings.Replace(every(10, "=\r\n"), "p_", "p=5F=\n", 1),
		"tags in encoded text":    base64.StdEncoding.EncodeToString([]byte("the token " + every(5, "<b>") + " is here")),
	} {
		check(t, newSet(t, Options{}), []scanCase{{name, "a.txt", []byte("the text\n" + text + "\nends\n"), "github-pat"}})
		if name == "tags in encoded text" {
			continue
		}
		if found := Message(t.Context(), "a: b\n\n"+text+"\n"); len(found) == 0 {
			t.Errorf("%s: nothing in a message", name)
		}
		if got := ShownName(text); strings.Contains(got, token[20:]) || got == text {
			t.Errorf("%s: got the name %q", name, got)
		}
	}
	check(t, newSet(t, Options{}), []scanCase{
		{"ordinary markup", "a.html", []byte("<p>a<b>b</b>c</p><!-- x -->\n<a href=x>y</a>z a=41b x=2345&y=67 \\n\\t \\41 \\u0041 a < b > c a/*b*/c\n"), ""},
		{"without an end", "a.html", []byte("a<b a<!-- a/* a\\ a= a<? a=6 a\\6"), ""},
		{"settings", "a.env", []byte("API_KEY=\nAPI_SECRET=\nNAME=kPqZ7vXw2LmN9tYb4RsD\n"), ""},
		{"sums", "go.sum", []byte(strings.Repeat("example.com/a v1.0.0 h1:wLkPqZ7vXw2LmN9tYb4RsD8fGh3JcV6aEu1QxTaaaaa=\n", 9)), ""},
	})
}

// TestEncodedPDFStreams checks that encoded streams of a PDF file are decoded.
func TestEncodedPDFStreams(t *testing.T) {
	stream := func(body string) []byte {
		return []byte("%PDF-1.7\n1 0 obj\n<< /Filter [/ASCII85Decode /FlateDecode] >>\nstream\n" + body + "\nendstream\nendobj\n%%EOF\n")
	}
	to85 := func(text string) string {
		out := make([]byte, ascii85.MaxEncodedLen(len(text)))
		return string(out[:ascii85.Encode(out, []byte(text))]) + "~>"
	}
	toHex := func(text string) string { return wrapText(hex.EncodeToString([]byte(text)), 60) + ">" }
	script := "<< /S /JavaScript /JS (app.alert) >>"
	const want = "PDF: JavaScript"
	check(t, newSet(t, Options{}), []scanCase{
		{"base 85", "a.pdf", stream(to85(deflate(script))), want},
		{"base 85 with its beginning", "a.pdf", stream("<~" + to85(deflate(script))), want},
		{"base 85 alone", "a.pdf", stream(to85(script)), want},
		{"hexadecimal", "a.pdf", stream(toHex(deflate(script))), want},
		{"both", "a.pdf", stream(toHex(to85(deflate(script)))), want},
		{"an address", "a.pdf", stream("BT (see <https://example.com>) Tj ET >"), ""},
		{"streams that never end", "a.pdf", []byte("%PDF-1.7\n" + strings.Repeat("stream ", 1<<18) + "\n%%EOF\n"), ""},
		{"streams with one end", "a.pdf", []byte("%PDF-1.7\n" + strings.Repeat("stream\n", 1<<16) + "vvvv~>\nendstream\n%%EOF\n"), "more streams inside of each other"},
		{"what runs is in a sheet", "a.xlsm", makeZip(member{"[Content_Types].xml", "<Types/>"}, member{"xl/macrosheets/sheet1.xml", "<x/>"}), "Office: macros"},
	})
}

// TestShownName checks that the name of a file does not show a token in it.
func TestShownName(t *testing.T) {
	const token = "ghp_kPqZ7vXw2LmN9tYb4RsD8fGh3JcV6aEu1QxT"
	for name, want := range map[string]string{
		"src/main.go": "src/main.go", "a/" + token + ".txt": "a/ghp_….txt", token + "/" + token: "ghp_…/ghp_…", "a/ghp_\u200b" + token[4:]: "a/ghp_…", "é\u200d.txt": "é\u200d.txt",
	} {
		if got := ShownName(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
