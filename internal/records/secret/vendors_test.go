package secret_test

import (
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/records/secret"
)

// TestVendors checks that every host is a pattern, and that no name has two meanings.
func TestVendors(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range secret.Vendors() {
		for _, name := range append([]string{v.Name}, v.Variables...) {
			if seen[name] {
				t.Errorf("%s twice", name)
			}
			seen[name] = true
		}
		for _, host := range v.Hosts {
			if !policy.IsHost(host) {
				t.Errorf("%s: %s is no host", v.Name, host)
			}
		}
	}
	if v, ok := secret.VendorOf("GH_TOKEN", ""); !ok || v.Name != "github" {
		t.Errorf("GH_TOKEN: got %v, %v", v, ok)
	}
	if v, ok := secret.VendorOf("", ""); ok {
		t.Errorf("nothing: got %v", v)
	}
}
