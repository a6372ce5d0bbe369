package scan

import (
	"bytes"
	"compress/zlib"
	be "encoding/binary"
	"io"
)

// lookJPEG follows the segments of a JPEG file.
func lookJPEG(n *notes, data []byte) {
	i := 2
	for {
		if i+1 >= len(data) || data[i] != 0xff {
			n.broken("JPEG image", i)
			return
		}
		marker := data[i+1]
		switch {
		case marker == 0xff: // fill bytes
			i++
			continue
		case marker == 0xd9:
			n.behind("JPEG image", data, i+2)
			return
		case marker == 0x01 || marker >= 0xd0 && marker <= 0xd8:
			i += 2
			continue
		}
		body, ok := segment(data, i+2)
		if !ok {
			n.broken("JPEG image", i)
			return
		}
		jpegSegment(n, marker, body)
		i += 4 + len(body)
		if marker == 0xda {
			i = scanEnd(data, i)
		}
	}
}

// segment returns the data after a length of two bytes, which counts itself.
func segment(data []byte, at int) ([]byte, bool) {
	if at+2 > len(data) {
		return nil, false
	}
	length := int(be.BigEndian.Uint16(data[at:]))
	if length < 2 || at+length > len(data) {
		return nil, false
	}
	return data[at+2 : at+length], true
}

func jpegSegment(n *notes, marker byte, body []byte) {
	const xmp = "http://ns.adobe.com/xap/1.0/\x00"
	switch {
	case marker == 0xfe:
		n.text("a comment", body)
	case marker == 0xe1 && bytes.HasPrefix(body, []byte("Exif\x00\x00")):
		lookEXIF(n, body[6:])
	case marker == 0xe1 && bytes.HasPrefix(body, []byte(xmp)):
		lookXMP(n, body[len(xmp):])
	case marker == 0xed:
		n.text("Photoshop's or a press agency's data", body)
	}
}

// scanEnd returns the position of the next marker after the image data.
func scanEnd(data []byte, i int) int {
	for ; i+1 < len(data); i++ {
		if m := data[i+1]; data[i] == 0xff && m != 0 && (m < 0xd0 || m > 0xd7) {
			return i
		}
	}
	return len(data)
}

// lookXMP examines metadata in XML.
func lookXMP(n *notes, body []byte) {
	n.text("XMP metadata", body)
	if bytes.Contains(body, []byte("GPSLatitude")) {
		n.tell("a GPS position in XMP")
	}
}

// exifTexts are the EXIF fields that people and programs write text into.
var exifTexts = map[uint16]string{
	0x010e: "description", 0x010f: "maker of the camera", 0x0110: "camera", 0x0131: "software", 0x013b: "artist", 0x8298: "copyright",
	0x9286: "comment", 0x927c: "maker's note", 0xa430: "owner", 0xa431: "serial number", 0x9c9b: "title", 0x9c9c: "comment of Windows",
	0x9c9d: "author", 0x9c9e: "keywords", 0x9c9f: "subject", 0x02bc: "XMP",
}

// lookEXIF follows the EXIF directories, which have the format of TIFF.
func lookEXIF(n *notes, data []byte) {
	var order be.ByteOrder = be.LittleEndian
	switch {
	case len(data) < 8:
		n.broken("EXIF data", 0)
		return
	case data[0] == 'M':
		order = be.BigEndian
	}
	open := []uint32{order.Uint32(data[4:])}
	// Directories may point at each other, so their number is limited.
	for range 16 {
		if len(open) == 0 {
			return
		}
		at := int64(open[0])
		open = open[1:]
		if at == 0 {
			continue
		}
		if at+2 > int64(len(data)) {
			n.broken("EXIF data", 0)
			return
		}
		count := int64(order.Uint16(data[at:]))
		for e := range count {
			field := at + 2 + 12*e
			if field+12 > int64(len(data)) {
				n.broken("EXIF data", 0)
				return
			}
			if next := exifField(n, data, order, data[field:field+12]); next != 0 {
				open = append(open, next)
			}
		}
		if end := at + 2 + 12*count; end+4 <= int64(len(data)) {
			open = append(open, order.Uint32(data[end:]))
		}
	}
}

// exifField records a field, and returns the position of the directory that it names.
func exifField(n *notes, data []byte, order be.ByteOrder, field []byte) uint32 {
	tag, kind, count := order.Uint16(field), order.Uint16(field[2:]), order.Uint32(field[4:])
	switch tag {
	case 0x8769: // EXIF's own directory
		return order.Uint32(field[8:])
	case 0x8825:
		n.tell("a GPS position in EXIF")
		return 0
	}
	what, ok := exifTexts[tag]
	if !ok || kind != 1 && kind != 2 && kind != 7 {
		return 0
	}
	value := field[8:12]
	if count > 4 {
		at := int64(order.Uint32(value))
		if at+int64(count) > int64(len(data)) {
			n.broken("EXIF data", 0)
			return 0
		}
		value = data[at : at+int64(count)]
	}
	n.text("EXIF: "+what, value)
	return 0
}

// pngChunks calls each for every chunk of a PNG file, and returns the end of the file, or
// -1 if it is damaged.
func pngChunks(data []byte, each func(kind string, body []byte) error) (int, error) {
	i := 8
	for i+12 <= len(data) {
		length := int64(be.BigEndian.Uint32(data[i:]))
		if int64(i)+12+length > int64(len(data)) {
			return -1, nil
		}
		kind := string(data[i+4 : i+8])
		if err := each(kind, data[i+8:i+8+int(length)]); err != nil {
			return -1, err
		}
		i += 12 + int(length)
		if kind == "IEND" {
			return i, nil
		}
	}
	return -1, nil
}

// pngKnown are the chunks that PNG readers know.
var pngKnown = map[string]bool{"IHDR": true, "PLTE": true, "IDAT": true, "IEND": true, "tRNS": true, "cHRM": true, "gAMA": true, "iCCP": true, "sBIT": true,
	"sRGB": true, "bKGD": true, "hIST": true, "pHYs": true, "sPLT": true, "tIME": true, "acTL": true, "fcTL": true, "fdAT": true, "cICP": true, "oFFs": true,
	"pCAL": true, "sCAL": true, "mDCv": true, "cLLi": true, "sTER": true, "gIFg": true, "gIFx": true, "mDCV": true, "cLLI": true, "vpAg": true, "orNT": true}

func lookPNG(n *notes, data []byte) {
	end, _ := pngChunks(data, func(kind string, body []byte) error {
		switch {
		case kind == "tEXt" || kind == "iTXt":
			n.text(kind+" text", body)
		case kind == "zTXt":
			n.tell("zTXt text, %d bytes", len(body))
		case kind == "eXIf":
			lookEXIF(n, body)
		case !pngKnown[kind]:
			n.tell("a chunk of no known kind, %d bytes", len(body))
		}
		return nil
	})
	if end < 0 {
		n.broken("PNG image", 0)
		return
	}
	n.behind("PNG image", data, end)
}

// openPNG shows compressed texts.
func openPNG(b *box) error {
	_, err := pngChunks(b.data, func(kind string, body []byte) error {
		if kind != "zTXt" && kind != "iTXt" {
			return nil
		}
		key := bytes.IndexByte(body, 0)
		if key < 0 {
			return nil
		}
		rest := body[key+1:]
		if kind == "zTXt" && len(rest) > 1 {
			return b.inflate(kind, rest[1:])
		}
		if len(rest) < 2 || rest[0] != 1 {
			return nil
		}
		// A language and a translated keyword come before the text.
		if parts := bytes.SplitN(rest[2:], []byte{0}, 3); len(parts) == 3 {
			return b.inflate(kind, parts[2])
		}
		return nil
	})
	return err
}

// inflate shows the content of a stream, as far as it can be read.
func (b *box) inflate(name string, packed []byte) error {
	if err := b.ctx.Err(); err != nil {
		return err
	}
	var err error
	if again, ok := b.zlib.(zlib.Resetter); ok { // a new one takes 40 kB
		err = again.Reset(bytes.NewReader(packed), nil)
	} else {
		b.zlib, err = zlib.NewReader(bytes.NewReader(packed))
	}
	if err != nil {
		return nil // it only looks like a stream
	}
	data, err := b.read(&forgiving{r: b.zlib})
	if err != nil {
		return err
	}
	return b.show(name, data, true)
}

// A forgiving reader ends at damaged data without an error.
type forgiving struct{ r io.Reader }

func (f *forgiving) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

// lookGIF follows the blocks of a GIF file.
func lookGIF(n *notes, data []byte) {
	i := 13
	if len(data) > i && data[10]&0x80 != 0 {
		i += 3 << (data[10]&7 + 1)
	}
	for i < len(data) {
		switch data[i] {
		case 0x3b:
			n.behind("GIF image", data, i+1)
			return
		case 0x21:
			if i+1 >= len(data) {
				n.broken("GIF image", i)
				return
			}
			body, end := subBlocks(data, i+2)
			switch kind := data[i+1]; {
			case kind == 0xfe:
				n.text("a comment", body)
			case kind == 0xff && bytes.HasPrefix(body, []byte("XMP Data")):
				lookXMP(n, body)
			}
			i = end
		case 0x2c:
			if i+10 >= len(data) {
				n.broken("GIF image", i)
				return
			}
			flags := data[i+9]
			i += 10
			if flags&0x80 != 0 {
				i += 3 << (flags&7 + 1)
			}
			_, i = subBlocks(data, i+1)
		default:
			n.broken("GIF image", i)
			return
		}
	}
	n.broken("GIF image", len(data))
}

// subBlocks joins blocks, each with its length before it, up to the empty one.
func subBlocks(data []byte, i int) (body []byte, end int) {
	for i < len(data) {
		length := int(data[i])
		i++
		if length == 0 || i+length > len(data) {
			return body, i
		}
		body = append(body, data[i:i+length]...)
		i += length
	}
	return body, i
}

// lookWebP follows the chunks of a WebP file.
func lookWebP(n *notes, data []byte) {
	end := 8 + int64(be.LittleEndian.Uint32(data[4:]))
	if end > int64(len(data)) {
		n.broken("WebP image", 0)
		return
	}
	for i := int64(12); i+8 <= end; {
		length := int64(be.LittleEndian.Uint32(data[i+4:]))
		if i+8+length > end {
			n.broken("WebP image", int(i))
			return
		}
		switch body := data[i+8 : i+8+length]; string(data[i : i+4]) {
		case "EXIF":
			lookEXIF(n, bytes.TrimPrefix(body, []byte("Exif\x00\x00")))
		case "XMP ":
			lookXMP(n, body)
		}
		i += 8 + length + length&1
	}
	n.behind("WebP image", data, int(end))
}
