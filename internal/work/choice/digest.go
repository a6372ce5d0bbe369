package choice

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Digest returns a hash of everything that a front shows about a file that was read: its
// contents, its kinds and its permission bits.
func (f *File) Digest() string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %s %s %s %s %s %q %d %t\n%d\n", f.Path, f.Op, f.Kind, f.OldKind, f.Mode, f.OldMode, f.LinkTarget, f.Size, f.Conflict, len(f.Real))
	sum.Write(f.Real)
	sum.Write(f.Own)
	return hex.EncodeToString(sum.Sum(nil))
}
