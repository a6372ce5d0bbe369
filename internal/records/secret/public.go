package secret

import (
	"slices"
	"strings"
)

// publicPrefixes begin the keys of vendors. Every key of a kind begins like this, so a
// prefix says nothing about a single key.
var publicPrefixes = []string{
	"sk-ant-api03-", "sk-ant-admin01-", "sk-ant-oat01-", "sk-ant-ort01-", "sk-ant-sid01-", "sk-ant-", // Anthropic
	"sk-proj-", "sk-svcacct-", "sk-admin-", "sk-or-v1-", "sk-lf-", "pk-lf-", "sk-", "sess-", // OpenAI, OpenRouter, Langfuse
	"gsk_", "xai-", "csk-", "fw_", "r8_", "hf_", "nvapi-", "tvly-", "tgp_v1_", "jina_", "co_", "fc-", // vendors of models
	"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "ATATT", "ATCTT", "ATBB", // GitHub, GitLab, Atlassian
	"AKIA", "ASIA", "ABIA", "ACCA", "AIza", "AQ.", "ya29.", "1//", "GOCSPX-", // Amazon, Google
	"xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxc-", "xoxd-", "xapp-", // Slack
	"sk_live_", "sk_test_", "rk_live_", "rk_test_", "pk_live_", "pk_test_", "whsec_", // Stripe
	"npm_", "pypi-", "cio", "AGE-SECRET-KEY-1", "re_", "phc_", "phx_", "sbp_", "vercel_", "nfp_", "figd_", "secret_", "pat-", "key-", "tskey-auth-", "tskey-api-",
}

// PublicPrefix returns the beginning of a secret that all secrets of its kind have, such as
// "sk-ant-api03-" or "ghp_", and "" if golem knows none. The header of a JSON Web Token and
// its claims count as public: without the signature nobody accepts them, and other tokens may
// have them.
func PublicPrefix(value string) string {
	if strings.HasPrefix(value, "eyJ") && strings.Count(value, ".") == 2 && !strings.HasSuffix(value, ".") {
		return value[:strings.LastIndexByte(value, '.')+1]
	}
	best := ""
	for _, p := range publicPrefixes {
		if len(p) > len(best) && len(p) < len(value) && strings.HasPrefix(value, p) {
			best = p
		}
	}
	if best != "" {
		return best
	}
	i := slices.IndexFunc(tokenPrefixes, func(p string) bool { return len(value) > len(p) && strings.EqualFold(value[:len(p)], p) })
	if i < 0 {
		return ""
	}
	return value[:len(tokenPrefixes[i])]
}
