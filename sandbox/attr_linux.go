package sandbox

import (
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

// kinds has the file types by the numbers that getdents returns. These are the bits of
// st_mode from the twelfth up.
var kinds = [16]fs.FileMode{
	unix.DT_REG:     0,
	unix.DT_DIR:     fs.ModeDir,
	unix.DT_LNK:     fs.ModeSymlink,
	unix.DT_FIFO:    fs.ModeNamedPipe,
	unix.DT_SOCK:    fs.ModeSocket,
	unix.DT_CHR:     fs.ModeDevice | fs.ModeCharDevice,
	unix.DT_BLK:     fs.ModeDevice,
	unix.DT_WHT:     fs.ModeIrregular,
	unix.DT_UNKNOWN: fs.ModeIrregular,
}

func fstat(fd int) (Attr, error) {
	var st unix.Stat_t
	for {
		err := unix.Fstat(fd, &st)
		if err == unix.EINTR {
			continue
		}
		return attrOf(&st), err
	}
}

func attrOf(st *unix.Stat_t) Attr {
	mode := fs.FileMode(st.Mode&0o777) | kinds[st.Mode>>12&0xf]
	if st.Mode&unix.S_ISUID != 0 {
		mode |= fs.ModeSetuid
	}
	if st.Mode&unix.S_ISGID != 0 {
		mode |= fs.ModeSetgid
	}
	if st.Mode&unix.S_ISVTX != 0 {
		mode |= fs.ModeSticky
	}
	return Attr{
		Size:    st.Size,
		Mode:    mode,
		ModTime: time.Unix(st.Mtim.Unix()),
		Links:   uint64(st.Nlink),
		ID:      st.Ino,
		Changed: st.Ctim.Nano(),
		UID:     st.Uid,
		GID:     st.Gid,
	}
}

// foldsCase reports whether the directory is on a file system that may treat "A" and "a"
// as one name. It looks at the type of the file system, and at the casefold flag that
// ext4 and f2fs have for a directory.
func foldsCase(fd int) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) == nil {
		switch uint32(st.Type) {
		case unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC, ntfsMagic, ntfs3Magic, hfsMagic, hfsPlusMagic,
			unix.CIFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
			return true
		}
	}
	open, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(open)
	flags, err := unix.IoctlGetInt(open, unix.FS_IOC_GETFLAGS)
	return err == nil && flags&casefoldFlag != 0
}

// Constants of the kernel that x/sys does not define.
const (
	casefoldFlag = 0x40000000
	ntfsMagic    = 0x5346544e
	ntfs3Magic   = 0x7366746e
	hfsMagic     = 0x4244
	hfsPlusMagic = 0x482b
)
