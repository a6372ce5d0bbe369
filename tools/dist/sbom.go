package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// makeSBOM writes the modules that a binary was built from, as SPDX 2.3.
func (r release) makeSBOM(binary, name string, data []byte) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	const document = "SPDXRef-DOCUMENT"
	main := object{"SPDXID": "SPDXRef-main", "name": info.Path, "versionInfo": r.version, "downloadLocation": "NOASSERTION", "filesAnalyzed": false,
		"checksums": []object{{"algorithm": "SHA256", "checksumValue": hash(data)}}, "licenseDeclared": "MIT"}
	packages := []object{main}
	relations := []object{{"spdxElementId": document, "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-main"}}
	licences := make(map[string]string)
	for _, m := range r.modules {
		licences[m.path] = m.licences
	}
	add := func(id, path, version, source string) {
		packages = append(packages, object{"SPDXID": id, "name": path, "versionInfo": version, "downloadLocation": "NOASSERTION", "filesAnalyzed": false, "licenseDeclared": cmp.Or(licences[path], "NOASSERTION"),
			"externalRefs": []object{{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": source}}})
		relations = append(relations, object{"spdxElementId": "SPDXRef-main", "relationshipType": "DEPENDS_ON", "relatedSpdxElement": id})
	}
	add("SPDXRef-go", "go", info.GoVersion, "pkg:generic/go@"+info.GoVersion)
	for i, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		add(fmt.Sprintf("SPDXRef-module-%d", i+1), m.Path, m.Version, "pkg:golang/"+m.Path+"@"+m.Version)
	}
	text, err := json.MarshalIndent(object{"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": document, "name": name,
		"documentNamespace": "urn:sha256:" + hash(data),
		"creationInfo":      object{"created": r.when.Format(time.RFC3339), "creators": []string{"Tool: golem-dist"}},
		"packages":          packages, "relationships": relations}, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, name), append(text, '\n'), 0o644)
}
