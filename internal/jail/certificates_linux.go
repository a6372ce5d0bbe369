package jail

import (
	"os"
	"path"
	"path/filepath"
)

// writeCertificates writes the certificates of the plan to a directory of the command,
// because there is no tree in which they could replace those of the host.
func (p plan) writeCertificates(temp string) error {
	for _, s := range p.Steps {
		at := filepath.Join(temp, filepath.Base(s.Target))
		switch {
		case s.Do == file && path.Dir(s.Target) == certificateDir:
			dir := filepath.Join(temp, filepath.Base(certificateDir))
			if err := os.Mkdir(dir, 0o755); err != nil {
				return err
			}
			at = filepath.Join(dir, filepath.Base(s.Target))
		case s.Do != file || s.Target != certificateFile:
			continue
		}
		if err := writeNew(at, []byte(s.Source), 0o444); err != nil {
			return err
		}
	}
	return nil
}
