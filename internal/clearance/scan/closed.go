package scan

import (
	"bytes"
	be "encoding/binary"
	"strings"
)

// A sealed is a kind of archive that golem cannot open, with the mark that identifies it.
type sealed struct {
	kind string
	at   int // offset of the mark; below zero counts from the end
	mark string
	is   func(data []byte) bool // a further condition, nil for none
}

// closed are the known kinds. Binary data of an unknown kind is held anyway. This list
// has kinds that look like something else, and kinds whose name helps the reader.
var closed = []sealed{
	{"7z", 0, "7z\xbc\xaf\x27\x1c", nil}, {"rar", 0, "Rar!\x1a\x07", nil}, {"xz", 0, "\xfd7zXZ\x00", nil}, {"zstd", 0, "\x28\xb5\x2f\xfd", nil},
	{"lz4", 0, "\x04\x22\x4d\x18", nil}, {"lz4", 0, "\x02\x21\x4c\x18", nil}, {"lzip", 0, "LZIP", oddHead}, {"lzop", 0, "\x89LZO\x00\r\n\x1a\n", nil},
	{"lrzip", 0, "LRZI", oddHead}, {"lzma", 0, "\x5d\x00\x00", isLZMA}, {"compress", 0, "\x1f\x9d", nil}, {"compress", 0, "\x1f\xa0", nil}, {"pack", 0, "\x1f\x1e", nil},
	{"snappy", 0, "\xff\x06\x00\x00sNaPpY", nil}, {"zpaq", 0, "7kSt", oddHead}, {"zpaq", 0, "zPQ", oddHead}, {"lzfse", 0, "bvx", oddHead},
	{"zstd or lz4", 1, "\x2a\x4d\x18", func(data []byte) bool { return data[0]&0xf0 == 0x50 }},
	{"cab", 0, "MSCF", oddHead}, {"InstallShield", 0, "ISc(", oddHead}, {"ar", 0, "!<arch>\n", nil}, {"ar", 0, "!<thin>\n", nil}, {"rpm", 0, "\xed\xab\xee\xdb", nil},
	{"xar", 0, "xar!", oddHead}, {"cpio", 0, "07070", isTextCPIO}, {"cpio", 0, "\xc7\x71", func(data []byte) bool { return isCPIO(be.LittleEndian, data) }},
	{"cpio", 0, "\x71\xc7", func(data []byte) bool { return isCPIO(be.BigEndian, data) }},
	{"lha", 2, "-lh", isLHA}, {"lha", 2, "-lz", isLHA}, {"lha", 2, "-pm", isLHA}, {"arj", 0, "\x60\xea", nil}, {"zoo", 20, "\xdc\xa7\xc4\xfd", nil},
	{"ace", 7, "**ACE**", nil}, {"alz", 0, "ALZ\x01", nil}, {"egg", 0, "EGGA", oddHead}, {"StuffIt", 0, "StuffIt", oddHead}, {"StuffIt", 10, "rLau", oddHead},
	{"Apple", 0, "AA01", oddHead}, {"Apple", 0, "YAA1", oddHead}, {"winmail", 0, "\x78\x9f\x3e\x22", nil}, {"OneNote", 0, "\xe4\x52\x5c\x7b\x8c\xd8\xa7\x4d", nil},
	{"mobi", 60, "BOOKMOBI", nil}, {"lit", 0, "ITOLITLS", nil}, {"chm", 0, "ITSF\x03\x00\x00\x00", nil}, {"wim", 0, "MSWIM\x00\x00\x00", nil},
	{"iso", 32769, "CD001", nil}, {"iso", 32769, "BEA01", nil}, {"iso", 34817, "CD001", nil}, {"iso", 34817, "NSR0", nil}, {"dmg", -512, "koly", oddHead},
	{"squashfs", 0, "hsqs", oddHead}, {"squashfs", 0, "sqsh", oddHead}, {"cramfs", 0, "\x45\x3d\xcd\x28", nil}, {"cramfs", 0, "\x28\xcd\x3d\x45", nil}, {"romfs", 0, "-rom1fs-", oddHead},
	{"erofs", 1024, "\xe2\xe1\xf5\xe0", nil}, {"ext", 1080, "\x53\xef", func(data []byte) bool { return be.LittleEndian.Uint32(data[1048:]) <= 6 }},
	{"FAT", 54, "FAT1", oddHead}, {"FAT", 82, "FAT32   ", oddHead}, {"FAT", 3, "EXFAT   ", oddHead}, {"NTFS", 3, "NTFS    ", oddHead}, {"GPT", 512, "EFI PART", nil},
	{"vhd", 0, "conectix", oddHead}, {"vhd", -512, "conectix", oddHead}, {"vhdx", 0, "vhdxfile", nil}, {"qcow", 0, "QFI\xfb", nil}, {"vmdk", 0, "KDMV", oddHead}, {"vmdk", 0, "COWD", oddHead},
	{"vdi", 64, "\x7f\x10\xda\xbe", nil}, {"Android", 0, "\x3a\xff\x26\xed", nil}, {"Android", 0, "ANDROID!", oddHead},
}

// closedKind returns the kind of a closed archive, or "" for other contents.
func closedKind(data []byte) string {
	for _, s := range closed {
		at := s.at
		if at < 0 {
			at += len(data)
		}
		if at >= 0 && at <= len(data) && strings.HasPrefix(string(data[at:min(len(data), at+len(s.mark))]), s.mark) && (s.is == nil || s.is(data)) {
			return s.kind
		}
	}
	return ""
}

// oddHead reports whether the first bytes are not text.
func oddHead(data []byte) bool { return oddByte(data[:min(len(data), 1024)]) >= 0 }

// isLZMA checks that the size is plausible or unknown.
func isLZMA(data []byte) bool {
	return len(data) > 13 && (bytes.Equal(data[5:13], bytes.Repeat([]byte{0xff}, 8)) || be.LittleEndian.Uint64(data[5:]) < 1<<40)
}

// isTextCPIO checks the digits of the first header.
func isTextCPIO(data []byte) bool {
	length := 110
	switch {
	case len(data) < 6:
		return false
	case data[5] == '7':
		length = 76
	case data[5] != '1' && data[5] != '2':
		return false
	}
	if len(data) < length {
		return false
	}
	for _, c := range data[:length] {
		if alphabet[c]&inHex == 0 {
			return false
		}
	}
	return true
}

// isCPIO checks that the name in the first header ends with a zero byte.
func isCPIO(order be.ByteOrder, data []byte) bool {
	if len(data) < 26 {
		return false
	}
	end := 26 + int(order.Uint16(data[20:]))
	return end > 26 && end <= len(data) && data[end-1] == 0
}

// isLHA checks the level of the first header, from 0 to 3.
func isLHA(data []byte) bool { return len(data) > 21 && data[6] == '-' && data[20] < 4 }
