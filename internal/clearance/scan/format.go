package scan

import (
	"context"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/gabriel-vasile/mimetype"
)

// format compares the content of a file with its name, and reports the kind of a binary
// file. Programs and unknown binary files are held, because nobody can review them.
type format struct{ allow []string }

func (format) Name() string      { return formatName }
func (f format) Version() string { return fmt.Sprint("2 ", f.allow) }

// kinds maps extensions of binary files to the kinds that their content must have, by the
// names of the mimetype library. A kind also counts as the kind it is based on.
var kinds = sync.OnceValue(func() map[string][]string {
	return map[string][]string{
		".png": {"image/png"}, ".jpg": {"image/jpeg"}, ".jpeg": {"image/jpeg"}, ".gif": {"image/gif"}, ".webp": {"image/webp"},
		".bmp": {"image/bmp"}, ".ico": {"image/x-icon", "image/png"}, ".tif": {"image/tiff"}, ".tiff": {"image/tiff"}, ".avif": {"image/avif"},
		".psd": {"image/vnd.adobe.photoshop"}, ".pdf": {"application/pdf"},
		".zip": {"application/zip"}, ".jar": {"application/zip"}, ".gz": {"application/gzip"}, ".tgz": {"application/gzip"},
		".bz2": {"application/x-bzip2"}, ".tar": {"application/x-tar"}, ".xz": {"application/x-xz"}, ".7z": {"application/x-7z-compressed"},
		".zst": {"application/zstd"}, ".rar": {"application/x-rar-compressed"},
		".docx": {"application/zip"}, ".xlsx": {"application/zip"}, ".pptx": {"application/zip"}, ".odt": {"application/zip"},
		".ods": {"application/zip"}, ".odp": {"application/zip"}, ".epub": {"application/zip"}, ".apk": {"application/zip"},
		".doc": {"application/x-ole-storage"}, ".xls": {"application/x-ole-storage"}, ".ppt": {"application/x-ole-storage"},
		".mp3": {"audio/mpeg"}, ".wav": {"audio/wav"}, ".ogg": {"application/ogg"}, ".flac": {"audio/flac"}, ".mp4": {"video/mp4"},
		".webm": {"video/webm"}, ".woff": {"font/woff"}, ".woff2": {"font/woff2"}, ".ttf": {"font/ttf"}, ".otf": {"font/otf"},
		".wasm": {"application/wasm"}, ".exe": {"application/vnd.microsoft.portable-executable"},
		".dll": {"application/vnd.microsoft.portable-executable"}, ".so": {"application/x-elf"}, ".class": {"application/x-java-applet"},
		".sqlite": {"application/vnd.sqlite3"},
	}
})

// textual are the extensions of files that must be text.
var textual = sync.OnceValue(func() []string {
	return strings.Fields(`.md .markdown .rst .txt .text .adoc .csv .tsv .log .go .mod .sum .py .pyi .js .mjs .cjs .jsx .tsx .rb .rs .c .h .cc
.cpp .hpp .cs .java .kt .kts .swift .scala .php .pl .pm .lua .r .sh .bash .zsh .fish .ps1 .bat .cmd .sql .html .htm .xhtml .css .scss .less .sass .xml
.xsl .svg .json .jsonl .json5 .yaml .yml .toml .ini .cfg .conf .env .properties .lock .gradle .cmake .mk .proto .graphql .tf .hcl .vue .svelte .tex .bib
.diff .patch .gitignore .gitattributes .editorconfig .worker .ipynb .map .pem .crt .asm .s .el .clj .ex .exs .erl .hs .ml .jl .nix .zig .dart`)
})

// programs are the kinds of executable files.
var programs = []string{"application/x-elf", "application/vnd.microsoft.portable-executable", "application/x-mach-binary",
	"application/wasm", "application/x-java-applet", "application/x-installshield", "application/x-ms-shortcut", "application/x-ms-installer",
	"application/vnd.debian.binary-package", "application/x-shockwave-flash", "application/vnd.ms-htmlhelp", "application/x-rpm", "application/x-bytecode.python"}

const unknown = "application/octet-stream"

func (f format) Scan(_ context.Context, c Content) ([]Finding, error) {
	data, err := c.bytes()
	if err != nil || len(data) == 0 {
		return nil, err
	}
	var found []Finding
	kind := mimetype.Detect(data)
	odd := oddByte(data)
	ext := strings.ToLower(path.Ext(c.Path))
	if want, ok := kinds()[ext]; ok && !slices.ContainsFunc(want, func(w string) bool { return isKind(kind, w) }) {
		found = append(found, Finding{Hold: true, What: fmt.Sprintf("its name ends in %s, but it is %s", ext, kind)})
	}
	if odd < 0 {
		if !utf8.Valid(data) && !wideText(data) {
			found = append(found, Finding{What: "text that is not in UTF-8"})
		}
		return found, nil
	}
	if (kind.Is(unknown) || isKind(kind, "text/plain")) && mostlyText(data) {
		return append(found, Finding{Offset: int64(odd), What: "text with control characters"}), nil
	}
	if slices.Contains(textual(), ext) {
		found = append(found, Finding{Hold: true, Offset: int64(odd), What: fmt.Sprintf("its name ends in %s, but it is not text: %s", ext, kind)})
	}
	what := fmt.Sprintf("%s, %d bytes, %.1f bits of entropy a byte", kind, len(data), byteEntropy(data))
	held := false
	switch {
	case slices.ContainsFunc(programs, func(p string) bool { return isKind(kind, p) }):
		held, what = true, "a program: "+what
	case kind.Is(unknown):
		held, what = true, "binary data of no known kind: "+what
	case isKind(kind, "text/plain"):
		held, what = true, "text followed by binary data: "+what
	}
	return append(found, Finding{Hold: held && !f.allows(kind), What: what}), nil
}

// isKind reports whether a kind is another one, or based on it.
func isKind(kind *mimetype.MIME, name string) bool {
	for ; kind != nil; kind = kind.Parent() {
		if kind.Is(name) {
			return true
		}
	}
	return false
}

func (f format) allows(kind *mimetype.MIME) bool {
	return slices.ContainsFunc(f.allow, func(pattern string) bool {
		ok, _ := path.Match(pattern, strings.TrimSpace(strings.SplitN(kind.String(), ";", 2)[0]))
		return ok
	})
}

// oddByte returns the position of the first byte that does not occur in text, or -1.
func oddByte(data []byte) int {
	if wideText(data) {
		return -1
	}
	return slices.IndexFunc(data, isOdd)
}

func isOdd(c byte) bool { return c < ' ' && (c < '\b' || c > '\r') && c != '\x1b' }

// mostlyText reports whether data is UTF-8 with only a few odd bytes, such as a bell or
// the end-of-file character of DOS.
func mostlyText(data []byte) bool {
	if !utf8.Valid(data) || slices.Contains(data, 0) {
		return false
	}
	for block := range slices.Chunk(data, 4096) {
		odd := 0
		for _, c := range block {
			if isOdd(c) {
				odd++
			}
		}
		if odd > 1+len(block)/100 {
			return false
		}
	}
	return true
}

// wideText reports whether data is UTF-16 text with a byte order mark.
func wideText(data []byte) bool {
	if len(data) < 2 || len(data)%2 != 0 {
		return false
	}
	low := 0
	switch string(data[:2]) {
	case "\xff\xfe":
	case "\xfe\xff":
		low = 1
	default:
		return false
	}
	for i := 2; i < len(data); i += 2 {
		if c := data[i+low]; data[i+1-low] == 0 && c < ' ' && (c < '\b' || c > '\r') {
			return false
		}
	}
	return true
}

// byteEntropy returns the entropy of data in bits per byte.
func byteEntropy(data []byte) (bits float64) {
	var counts [256]int
	for _, c := range data {
		counts[c]++
	}
	return bitsOf(&counts, len(data))
}

func bitsOf(counts *[256]int, all int) (bits float64) {
	for _, n := range counts {
		if n > 0 {
			p := float64(n) / float64(all)
			bits -= p * math.Log2(p)
		}
	}
	return bits
}
