package secret

import (
	"regexp"
	"strings"
)

// tokenPrefixes begin tokens of vendors that have no pattern of their own. The tokens have
// a random part of at least 16 characters. Case does not matter.
var tokenPrefixes = []string{
	"ops_eyj",                          // 1Password
	"ltai", "absk", "bedrock-api-key-", // Alibaba, Amazon Bedrock
	"akcp", "cmvmd", "clojars_", "v1.0-", // Artifactory, Clojars, Cloudflare
	"dapi", "dckr_pat_", "dckr_oat_", "dop_v1_", "doo_v1_", "dor_v1_", "dp.pt.", "duffel_", "dt0c01.", // Databricks, Docker, DigitalOcean, Doppler, Duffel, Dynatrace
	"ezak", "eztk", "fio-u-", "flwpubk_", "flwseck_", "fo1_", "fm1_", "fm1a_", "fm2_", // EasyPost, Frame.io, Flutterwave, Fly.io
	"glcbt-", "gldt-", "glffct-", "glft-", "glimt-", "glagent-", "gloas-", "glptt-", "glrt-", "glrtr-", "glsoat-", "gr1348941", // GitLab
	"eyjrijoi", "glc_", "glsa_", "pat.", "sat.", "hrku-", "api_org_", "ico-", "s-s4t2", // Grafana, Harness, Heroku, Hugging Face, Infracost, 42
	"lin_api_", "ntn_", "sha256~", "pplx-", "pscale_tkn_", "pscale_oauth_", "pscale_pw_", "pmak-", "pnu_", "pul-", // Linear, Notion, OpenShift, Perplexity, PlanetScale, Postman, Prefect, Pulumi
	"rdme_", "rubygems_", "tk-us-", "sg.", "xkeysib-", "sntrys_", "sntryu_", "sm_aat_", "sm_pat_", "sm_sat_", "shippo_live_", "shippo_test_", // ReadMe, RubyGems, Scalingo, SendGrid, Brevo, Sentry, SettleMint, Shippo
	"shpat_", "shpca_", "shppa_", "shpss_", "xoxe.xox", "sgp_", "sq0atp-", "hvb.", "hvs.", // Shopify, Slack, Sourcegraph, Square, Vault
}

// compileTokens returns an expression for a token that begins with one of the prefixes.
func compileTokens() *regexp.Regexp {
	var quoted []string
	for _, p := range tokenPrefixes {
		quoted = append(quoted, regexp.QuoteMeta(p))
	}
	return regexp.MustCompile(`(?i)\b(?:` + strings.Join(quoted, "|") + `)[a-z0-9_.=+/~-]{16,}`)
}
