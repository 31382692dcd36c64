package problem

import "net/http"

// autonomyCodes are the refusals of the packages that compute the autonomy score.
var autonomyCodes = []Code{
	{Name: "strategy_malformed", Status: http.StatusUnprocessableEntity, Public: true, Step: "appraisal", Title: "A strategy, or the salt of its commitment, does not have its form", Remedy: "Send tools, hosts, model and calls as docs/autonomy.md has them, and a salt of 16 to 64 random bytes as base64url."},
}
