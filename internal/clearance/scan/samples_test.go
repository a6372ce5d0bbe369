package scan

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/zlib"
	be "encoding/binary"
	"hash/crc32"
	"io"
	"strings"
)

// A member is a file of an archive.
type member struct{ name, content string }

func makeZip(members ...member) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, m := range members {
		f, _ := w.Create(m.name)
		_, _ = io.WriteString(f, m.content)
	}
	_ = w.Close()
	return b.Bytes()
}

func makeTar(members ...member) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		_ = w.WriteHeader(&tar.Header{Name: m.name, Mode: 0o644, Size: int64(len(m.content))})
		_, _ = io.WriteString(w, m.content)
	}
	_ = w.Close()
	return b.Bytes()
}

func deflate(text string) string {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

// png returns an image with additional chunks, as pairs of kind and body.
func png(chunks ...string) []byte {
	b := []byte("\x89PNG\r\n\x1a\n")
	add := func(kind, body string) {
		b = be.BigEndian.AppendUint32(b, uint32(len(body)))
		b = append(b, kind+body...)
		b = be.BigEndian.AppendUint32(b, crc32.ChecksumIEEE([]byte(kind+body)))
	}
	add("IHDR", "\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00\x00\x00\x00")
	for i := 0; i+1 < len(chunks); i += 2 {
		add(chunks[i], chunks[i+1])
	}
	add("IDAT", deflate("\x00\x00"))
	add("IEND", "")
	return b
}

// jpeg returns an image with additional segments, as pairs of marker and body.
func jpeg(segments ...string) []byte {
	b := []byte("\xff\xd8")
	for i := 0; i+1 < len(segments); i += 2 {
		b = append(b, 0xff, segments[i][0])
		b = be.BigEndian.AppendUint16(b, uint16(len(segments[i+1])+2))
		b = append(b, segments[i+1]...)
	}
	return append(b, "\xff\xda\x00\x02data\xff\x00more\xff\xd9"...)
}

// exif returns EXIF data with one text, and optionally a position.
func exif(tag uint16, text string, gps bool) string {
	b := []byte("MM\x00*\x00\x00\x00\x08")
	fields := uint16(1)
	if gps {
		fields = 2
	}
	b = be.BigEndian.AppendUint16(b, fields)
	b = be.BigEndian.AppendUint16(b, tag)
	b = append(b, 0, 2)
	b = be.BigEndian.AppendUint32(b, uint32(len(text)))
	b = be.BigEndian.AppendUint32(b, uint32(8+2+12*int(fields)+4))
	if gps {
		b = append(b, "\x88\x25\x00\x04\x00\x00\x00\x01\x00\x00\x00\x08"...)
	}
	return "Exif\x00\x00" + string(b) + "\x00\x00\x00\x00" + text
}

func gif(comment string) []byte {
	b := "GIF89a\x01\x00\x01\x00\x80\x00\x00" + "\x00\x00\x00\xff\xff\xff"
	if comment != "" {
		b += "\x21\xfe" + string(rune(len(comment))) + comment + "\x00"
	}
	return []byte(b + "\x2c\x00\x00\x00\x00\x01\x00\x01\x00\x00" + "\x02\x02\x44\x01\x00" + "\x3b")
}

func pdf(body string) []byte {
	return []byte("%PDF-1.7\n1 0 obj\n<< /Type /Catalog " + body + " >>\nendobj\ntrailer << /Root 1 0 R >>\n%%EOF\n")
}

// pdfStream returns a document with one compressed stream.
func pdfStream(text string) []byte {
	return []byte("%PDF-1.7\n1 0 obj\n<< /Type /ObjStm /Filter /FlateDecode >>\nstream\n" + deflate(text) + "\nendstream\nendobj\n%%EOF\n")
}

func id3(frame, text string) []byte {
	body := frame + string(be.BigEndian.AppendUint32(nil, uint32(len(text)))) + "\x00\x00" + text
	return []byte("ID3\x03\x00\x00\x00\x00\x00" + string(rune(len(body))) + body + strings.Repeat("\xff\xfb\x90\x00", 8))
}

func font(tag, table, behind string) []byte {
	b := []byte("OTTO\x00\x01\x00\x00\x00\x00\x00\x00" + tag + "\x00\x00\x00\x00")
	b = be.BigEndian.AppendUint32(b, 28)
	b = be.BigEndian.AppendUint32(b, uint32(len(table)))
	return append(b, table+behind...)
}
