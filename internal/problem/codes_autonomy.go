package problem

import "net/http"

// autonomyCodes are the refusals of the packages that compute the autonomy score.
var autonomyCodes = []Code{
	{Name: "strategy_malformed", Status: http.StatusUnprocessableEntity, Public: true, Step: "appraisal", Title: "A strategy, or the salt of its commitment, does not have its form", Remedy: "Send tools, hosts, model and calls as docs/autonomy.md has them, and a salt of 16 to 64 random bytes as base64url."},
	{Name: "score_mismatch", Status: http.StatusForbidden, Step: "appraisal", Title: "A score is not what its receipts come to", Remedy: "Verify it with all receipts up to the one that it names, and with its own baseline and challenges; if they are, do not believe the appraiser."},
}
