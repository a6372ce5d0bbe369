package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

type object = map[string]any

// makeImage writes an OCI image with one static binary and the licences, as the archive of an
// image layout. `podman load -i FILE` reads it.
func (r release) makeImage(binary, arch string, data []byte) error {
	files := []file{{"usr/bin/" + binary, data, 0o755}, {"tmp/", nil, 0o1777}, {"work/", nil, 0o755}}
	for _, name := range []string{"LICENSE", "NOTICE"} {
		text, err := os.ReadFile(filepath.Join(r.work, "share/doc/golem", name))
		if err != nil {
			return err
		}
		files = append(files, file{"usr/share/doc/" + binary + "/" + name, text, 0o644})
	}
	layer, err := r.tarOf(files)
	if err != nil {
		return err
	}
	packed, err := compress(layer)
	if err != nil {
		return err
	}
	created := r.when.Format(time.RFC3339)
	config, err := json.Marshal(object{
		"architecture": arch, "os": "linux", "created": created,
		"config": object{"Entrypoint": []string{"/usr/bin/" + binary}, "WorkingDir": "/work", "Env": []string{"PATH=/usr/bin:/bin", "HOME=/tmp"},
			"Labels": object{"org.opencontainers.image.title": binary, "org.opencontainers.image.version": r.version, "org.opencontainers.image.licenses": "MIT"}},
		"rootfs":  object{"type": "layers", "diff_ids": []string{digest(layer)}},
		"history": []object{{"created": created, "created_by": "make dist"}},
	})
	if err != nil {
		return err
	}
	const media = "application/vnd.oci.image."
	manifest, err := json.Marshal(object{"schemaVersion": 2, "mediaType": media + "manifest.v1+json",
		"config": describe(media+"config.v1+json", config), "layers": []object{describe(media+"layer.v1.tar+gzip", packed)}})
	if err != nil {
		return err
	}
	entry := describe(media+"manifest.v1+json", manifest)
	entry["platform"] = object{"architecture": arch, "os": "linux"}
	entry["annotations"] = object{"org.opencontainers.image.ref.name": "localhost/" + binary + ":" + r.version}
	index, err := json.Marshal(object{"schemaVersion": 2, "mediaType": media + "index.v1+json", "manifests": []object{entry}})
	if err != nil {
		return err
	}
	files = nil
	for _, blob := range [][]byte{packed, config, manifest} {
		files = append(files, file{"blobs/sha256/" + hash(blob), blob, 0o644})
	}
	files = append(files, file{"index.json", index, 0o644}, file{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644})
	archive, err := r.tarOf(files)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, fmt.Sprintf("%s_%s_linux_%s.oci.tar", binary, r.version, arch)), archive, 0o644)
}

func describe(media string, data []byte) object {
	return object{"mediaType": media, "digest": digest(data), "size": len(data)}
}

func digest(data []byte) string { return "sha256:" + hash(data) }

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
